"""The paper by Hajimoradlou and Kazemi (2020) as data, and what runs it again."""
