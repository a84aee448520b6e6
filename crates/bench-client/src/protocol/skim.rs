//! The short way through the commonest chunk: one choice, one piece of plain text, nothing else that matters.
//!
//! Nearly every event of a stream has that shape, and a full parse of it costs more than all else that is done to an event.
//! Anything unusual (an escape, a second choice, a usage, any key that could matter) gives `None`, and serde reads the document.
//! So this never decides anything that serde would decide otherwise (keys that come twice aside, which serde refuses): a property
//! test holds the two together.

/// Where the text is: `{"choices":[{"delta":{"content":…}}]}` or `{"choices":[{"text":…}]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Chat,
    Completions,
}

/// The text of the commonest chunk, if `json` is one and the text is not empty.
pub(crate) fn skim(json: &[u8], shape: Shape) -> Option<&str> {
    let mut cursor = Cursor { json, at: 0 };
    let mut text = None;
    cursor.object(|cursor, key| match key {
        b"choices" if text.is_none() => {
            text = Some(cursor.only_choice(shape)?);
            Some(())
        }
        b"id" | b"created" | b"model" | b"system_fingerprint" => cursor.scalar(),
        b"object" => (cursor.string()? != b"error").then_some(()),
        b"usage" | b"prompt_token_ids" | b"service_tier" => cursor.null(),
        _ => None,
    })?;
    cursor.end()?;
    let text = std::str::from_utf8(text?).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

/// A position in a document.
struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// `[{…}]` with exactly one choice.
    fn only_choice(&mut self, shape: Shape) -> Option<&'a [u8]> {
        self.token(b'[')?;
        let mut text = None;
        self.object(|cursor, key| match (key, shape) {
            (b"delta", Shape::Chat) if text.is_none() => {
                text = Some(cursor.only_content()?);
                Some(())
            }
            (b"text", Shape::Completions) if text.is_none() => {
                text = Some(cursor.string()?);
                Some(())
            }
            (b"index", _) => cursor.scalar(),
            (
                b"finish_reason" | b"logprobs" | b"token_ids" | b"stop_reason"
                | b"prompt_token_ids" | b"prompt_logprobs" | b"matched_stop",
                _,
            ) => cursor.null(),
            _ => None,
        })?;
        self.token(b']')?;
        text
    }

    /// `{"content":"…"}` and nothing beside it.
    fn only_content(&mut self) -> Option<&'a [u8]> {
        let mut text = None;
        self.object(|cursor, key| {
            if key != b"content" || text.is_some() {
                return None;
            }
            text = Some(cursor.string()?);
            Some(())
        })?;
        text
    }

    /// An object, each of whose values `member` consumes. Every key that is taken twice must be refused there or not matter.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        self.token(b'{')?;
        loop {
            let key = self.string()?;
            self.token(b':')?;
            member(self, key)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// A string without escapes and control characters.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.token(b'"')?;
        let rest = self.json.get(self.at..)?;
        let length = memchr::memchr2(b'"', b'\\', rest)?;
        let text = rest.get(..length)?;
        let plain = rest.get(length) == Some(&b'"') && text.iter().all(|&byte| byte >= b' ');
        self.at += length + 1;
        plain.then_some(text)
    }

    /// `null`, a plain string, or a whole number.
    fn scalar(&mut self) -> Option<()> {
        self.space();
        match *self.json.get(self.at)? {
            b'"' => self.string().map(|_| ()),
            b'0'..=b'9' => self.whole_number(),
            _ => self.null(),
        }
    }

    fn whole_number(&mut self) -> Option<()> {
        let rest = self.json.get(self.at..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let leading_zero = digits > 1 && rest.first() == Some(&b'0');
        self.at += digits;
        (!leading_zero && digits < 16).then_some(())
    }

    fn null(&mut self) -> Option<()> {
        self.space();
        let rest = self.json.get(self.at..)?;
        self.at += 4;
        rest.starts_with(b"null").then_some(())
    }

    fn token(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    /// The next byte that is no white space.
    fn next(&mut self) -> Option<u8> {
        self.space();
        let byte = *self.json.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn space(&mut self) {
        while matches!(self.json.get(self.at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Nothing but white space is left.
    fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.json.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str, shape: Shape) -> Option<&str> {
        skim(json.as_bytes(), shape)
    }

    #[test]
    fn the_chunks_of_real_servers_are_skimmed() {
        let vllm = r#"{"id":"c","object":"chat.completion.chunk","created":1795171180,"model":"m","choices":[{"index":0,"delta":{"content":"é x"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#;
        let llama = r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"é x"}}],"created":1,"id":"c","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#;
        let python = r#"{"id": "c", "model": "m", "created": 1, "object": "c", "choices": [{"index": 0, "delta": {"content": "é x"}, "logprobs": null, "finish_reason": null}]}"#;
        for chunk in [vllm, llama, python] {
            assert_eq!(text(chunk, Shape::Chat), Some("é x"));
        }
        let completions = r#"{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}"#;
        assert_eq!(text(completions, Shape::Completions), Some(" a"));
    }

    #[test]
    fn whatever_could_matter_is_left_to_the_full_parse() {
        let choice = |choice: &str| format!(r#"{{"choices":[{{{choice}}}]}}"#);
        let left = [
            choice(r#""delta":{"content":""}"#),
            choice(r#""delta":{"content":"a\n"}"#),
            choice(r#""delta":{"content":null}"#),
            choice(r#""delta":{"content":"a","role":"assistant"}"#),
            choice(r#""delta":{"reasoning":"a"}"#),
            choice(r#""delta":{"content":"a"},"finish_reason":"stop""#),
            choice(r#""delta":{"content":"a"},"token_ids":[1]"#),
            choice(r#""delta":{"content":"a"}},{"delta":{"content":"b"}"#),
            choice(r#""delta":{"content":"a"},"delta":{"content":"b"}"#),
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}"#.to_owned(),
            r#"{"choices":[{"delta":{"content":"a"}}],"error":{"message":"no"}}"#.to_owned(),
            r#"{"created":01,"choices":[{"delta":{"content":"a"}}]}"#.to_owned(),
            r#"{"created":1.5,"choices":[{"delta":{"content":"a"}}]}"#.to_owned(),
            r#"{"choices":[{"delta":{"content":"a"}}]} x"#.to_owned(),
            r#"{"choices":[{"delta":{"content":"a"}}]"#.to_owned(),
        ];
        for json in &left {
            assert_eq!(text(json, Shape::Chat), None, "{json}");
        }
        assert_eq!(
            skim(
                b"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
                Shape::Chat
            ),
            None
        );
    }
}
