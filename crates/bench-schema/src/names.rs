//! Enums of names: each a word in the JSON and a sentence of documentation, once.

macro_rules! names {
    ($(#[$top:meta])* $name:ident { $($(#[$own:meta])* $variant:ident $key:literal $doc:literal;)* }) => {
        $(#[$top])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $(#[doc = $doc] $(#[$own])* #[serde(rename = $key)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its stable name, as in the JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $key),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
