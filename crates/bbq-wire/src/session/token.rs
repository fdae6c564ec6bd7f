//! The token of a hello: what a client shows to a server that asks for one.
//!
//! Invariant: nothing that is shown or logged contains the token; only [`Token::expose`] returns it. Its memory is wiped when it is
//! dropped.

use std::fmt;

use zeroize::Zeroizing;

use crate::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};

/// A secret of 16 to 512 visible ASCII characters, without white space: so it fits a line of a file and an `Authorization` header.
///
/// Two tokens must not be compared by `==` to find out whether a client may send, as that takes longer the more of them agrees.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<Box<str>>);

impl Token {
    /// Checks a token; returns `None` if it has another length or other characters.
    #[must_use]
    pub fn new(text: &str) -> Option<Token> {
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Token(Zeroizing::new(text.into())))
    }

    /// The token itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}
