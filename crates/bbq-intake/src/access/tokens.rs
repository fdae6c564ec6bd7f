//! The tokens of a file.
//!
//! ```text
//! # A comment. The same name may have several tokens, so that they can be changed one after the other.
//! till-4 6f1a4c0e9b7d52c83a10
//! till-4 c2b0e8771f5d4ea6b391
//! 0d9e3b7a51c24f68a7e0            a token without a name has the name "default"
//! edge-1 51c24f68a7e00d9e3b7a relay      of a server that passes on messages of others (sink `bbq:`)
//! ```
//!
//! Invariant: how long a check takes does not depend on how much of a token matches, nor on which token matches.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bbq_spec::Secret;
use bbq_wire::Token;
use bbq_wire::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

/// The most tokens of a file: each check compares all of them, a thousand in some 10 us.
const TOKENS_MAX: usize = 1000;
/// The longest name: it is written to the log and to the checkpoint of streams.
const NAME_BYTES_MAX: usize = 64;
/// The name of tokens without one.
const NAME_DEFAULT: &str = "default";

/// The word behind the token of a server that passes on the messages of others.
const RELAY: &str = "relay";

type Digest = [u8; SHA256_OUTPUT_LEN];

/// The sender that has shown a token. A session keeps it for as long as the session lasts.
pub struct Admission {
    identity: Arc<str>,
    digest: Digest,
    /// Whether it may pass on messages of any stream, as another server does.
    relays: bool,
    /// The token is no longer in the file.
    is_revoked: AtomicBool,
}

/// Why somebody may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No token was sent.
    #[error("a token is needed here, and none was sent")]
    Missing,
    /// The token is not in the file.
    #[error("the token is not valid here")]
    Wrong,
}

/// The tokens of a file; at least one.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<Arc<Admission>>);

impl Admission {
    /// The name of the token.
    pub(crate) fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// Whether its sender may pass on the messages of others.
    pub(crate) fn relays(&self) -> bool {
        self.relays
    }

    /// Whether the token was removed from the file since.
    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }

    fn is_same(&self, other: &Admission) -> bool {
        self.identity == other.identity && self.digest == other.digest && self.relays == other.relays
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or the number of the first line that is wrong. The error does not show the line.
    pub(crate) fn read(path: &Path) -> Result<Tokens, String> {
        let text = Secret::of_file(path)?;
        Tokens::of_text(text.expose()).map_err(|problem| format!("{}{problem}", path.display()))
    }

    pub(super) fn of_text(text: &str) -> Result<Tokens, String> {
        let mut tokens: Vec<Arc<Admission>> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let admission = admission(line).map_err(|problem| format!(":{number}: {problem}"))?;
            if tokens.iter().any(|known| known.digest == admission.digest) {
                return Err(format!(":{number}: an earlier line has the same token; give each name its own"));
            }
            if tokens.len() == TOKENS_MAX {
                return Err(format!(":{number}: there are more than {TOKENS_MAX} tokens"));
            }
            tokens.push(Arc::new(admission));
        }
        if tokens.is_empty() {
            return Err(" has no token; write TOKEN or NAME TOKEN in each line".to_owned());
        }
        Ok(Tokens(tokens))
    }

    /// Returns the admission of the shown token.
    pub(crate) fn check(&self, shown: Option<&str>) -> Result<Arc<Admission>, Denied> {
        let shown = digest_of(shown.ok_or(Denied::Missing)?);
        let mut found = u64::MAX;
        for (place, admission) in (0_u64..).zip(&self.0) {
            found.conditional_assign(&place, admission.digest.ct_eq(&shown));
        }
        let found = usize::try_from(found).ok().and_then(|place| self.0.get(place));
        found.cloned().ok_or(Denied::Wrong)
    }

    /// Takes over the admissions of `before`, and revokes those whose tokens are not here any more.
    pub(super) fn replace(&mut self, before: &Tokens) {
        for old in &before.0 {
            match self.0.iter_mut().find(|new| new.is_same(old)) {
                Some(new) => *new = Arc::clone(old),
                None => old.is_revoked.store(true, Ordering::Relaxed),
            }
        }
    }
}

fn admission(line: &str) -> Result<Admission, String> {
    let mut words = line.split_whitespace();
    let (name, token, right) = (words.next().unwrap_or_default(), words.next(), words.next());
    let (name, token) = token.map_or((NAME_DEFAULT, name), |token| (name, token));
    if words.next().is_some() || !matches!(right, None | Some(RELAY)) {
        return Err(
            "only the word relay may follow NAME TOKEN; write NAME TOKEN, NAME TOKEN relay, or TOKEN"
                .to_owned(),
        );
    }
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} visible ASCII characters"));
    }
    let Some(token) = Token::new(token) else {
        return Err(format!("a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters"));
    };
    Ok(Admission {
        identity: name.into(),
        digest: digest_of(token.expose()),
        relays: right.is_some(),
        is_revoked: AtomicBool::new(false),
    })
}

/// Tokens are meant to be random: the digest of a random token does not reveal it, even without a salt.
fn digest_of(token: &str) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Reads text as a file. Every token in it must be admitted by its name, and no error may show one.
#[cfg(fuzzing)]
pub(crate) fn fuzzed_tokens(text: &str) {
    let read = Tokens::of_text(text);
    let words = text.lines().filter_map(|line| line.split_whitespace().last());
    for token in words.filter(|word| Token::new(word).is_some()) {
        match &read {
            Ok(tokens) => assert!(tokens.check(Some(token)).is_ok() || text.contains('#'), "{token:?}"),
            Err(problem) => assert!(!problem.contains(token), "{problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "first-token-0001";
    const SECOND: &str = "second-token-002";

    fn identity(tokens: &Tokens, shown: &str) -> Result<String, Denied> {
        tokens.check(Some(shown)).map(|admission| admission.identity().to_string())
    }

    #[test]
    fn each_token_has_its_name_and_others_are_denied() {
        let text = format!("# tills\n\n till-4\t{FIRST} \r\ntill-4 another-one-00004\n{SECOND}\n");
        let tokens = Tokens::of_text(&text).unwrap();
        assert_eq!(identity(&tokens, FIRST).unwrap(), "till-4");
        assert_eq!(identity(&tokens, "another-one-00004").unwrap(), "till-4");
        assert_eq!(identity(&tokens, SECOND).unwrap(), "default");
        for wrong in ["", "first-token-000", "first-token-0002", "first-token-00011", "till-4"] {
            assert_eq!(identity(&tokens, wrong), Err(Denied::Wrong), "{wrong}");
        }
        assert_eq!(tokens.check(None).err(), Some(Denied::Missing));
        let relays = |text: String| Tokens::of_text(&text).unwrap().check(Some(FIRST)).unwrap().relays();
        assert!(
            relays(format!("edge {FIRST} relay"))
                && !relays(format!("edge {FIRST}"))
                && !relays(FIRST.to_owned())
        );
        assert!(!format!("{tokens:?}").contains(FIRST));
    }

    #[test]
    fn a_mistake_names_the_line_and_does_not_show_it() {
        let long = "n".repeat(65);
        for (text, says) in [
            (String::new(), "has no token"),
            ("# sesame\n".to_owned(), "has no token"),
            ("\nsesame\n".to_owned(), ":2: a token has 16 to 512"),
            (format!("till-4 sesame {FIRST}"), ":1: only the word relay may follow"),
            (format!("till-4 {FIRST} relay sesame"), ":1: only the word relay may follow"),
            (format!("{long} {FIRST}"), ":1: a name has 1 to 64"),
            (format!("a {FIRST}\nb {FIRST}"), ":2: an earlier line has the same token"),
            ("sesame-s\u{e9}same-sesame".to_owned(), ":1: a token has"),
        ] {
            let error = Tokens::of_text(&text).unwrap_err();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains("sesame") && !error.contains(FIRST), "{error}");
        }
    }

    #[test]
    fn what_is_taken_out_of_the_file_is_revoked_and_what_stays_is_not() {
        let before = Tokens::of_text(&format!("a {FIRST}\nb {SECOND}")).unwrap();
        let (a, b) = (before.check(Some(FIRST)).unwrap(), before.check(Some(SECOND)).unwrap());
        let mut after = Tokens::of_text(&format!("b {SECOND}\na a-third-token-03")).unwrap();
        after.replace(&before);
        assert!(a.is_revoked() && !b.is_revoked());
        assert_eq!(identity(&after, FIRST), Err(Denied::Wrong));
        // The same name for another token is enough for a new connection, and no reason to keep the old one.
        assert!(Arc::ptr_eq(&after.check(Some(SECOND)).unwrap(), &b));
    }
}
