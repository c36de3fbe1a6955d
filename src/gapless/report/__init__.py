"""The pages and texts of a release: report, privacy statement, dictionary, analysis guide, page of weights."""
