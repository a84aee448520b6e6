//! Reports from results: terminal tables, Markdown, HTML with charts, figures, exports.
