//! What can be wrong with a document, and with the choice of a protocol.

/// A document of the answer that is not what the protocol promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    what: String,
}

impl DecodeError {
    /// Says what was wrong, for people.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Why there is no such protocol.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The name is not known.
    #[error(
        "no protocol is called `{name}`; known are {known}; for anything else use `template:FILE`"
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// `template` was asked for without the file that describes it.
    #[error(
        "the protocol `template` needs a description: use `template:FILE` (docs/protocols.md shows one)"
    )]
    TemplateWithoutFile,
    /// The template's file cannot be read.
    #[error("the template `{path}` cannot be read; check the path")]
    TemplateFile {
        /// The path as given.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The template's file is not a template.
    #[error("the template `{path}` is not one: {source}; docs/protocols.md lists its keys")]
    TemplateSyntax {
        /// The path as given.
        path: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
    /// A path of the template is not a JSON pointer.
    #[error(
        "`{pointer}` in the template's `{key}` is no JSON pointer; it begins with `/`, as in `/choices/0/text`"
    )]
    Pointer {
        /// The template's key.
        key: &'static str,
        /// The path as given.
        pointer: String,
    },
    /// The template's body uses a placeholder that does not exist.
    #[error(
        "the template's body has the placeholder `{{{{{name}}}}}`, which does not exist; known are {known}"
    )]
    Placeholder {
        /// The placeholder.
        name: String,
        /// The placeholders that there are.
        known: String,
    },
}
