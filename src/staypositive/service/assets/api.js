// The JSON API, with the token when one is needed; every failure is an Error with the server's own words.
import { $ } from "./dom.js";

const KEPT = "staypositive-token";

export class ApiError extends Error {
  constructor(problem, status) {
    super(problem.message);
    this.suggestions = problem.suggestions ?? [];
    this.status = status;
  }
}

export const get = (path, query = {}, signal) => call(`/api/${path}?${new URLSearchParams(query)}`, { signal });
export const post = (path, body, signal) =>
  call(`/api/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal });

export const fetchSchema = () => call("/openapi.json", {});

async function call(path, options) {
  const token = sessionStorage.getItem(KEPT);
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  let reply;
  try {
    reply = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ message: "The service does not answer. Is it still running?" }, 0);
  }
  if (reply.ok) return reply.json();
  if (reply.status === 401) {
    await askToken();
    return call(path, options);
  }
  const body = await reply.json().catch(() => ({}));
  throw new ApiError(body.error ?? { message: `The service answered ${reply.status}.` }, reply.status);
}

let asking = null;

function askToken() {
  asking ??= new Promise((done) => {
    const dialog = $("token-dialog");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEPT, $("token").value.trim());
      $("token").value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
