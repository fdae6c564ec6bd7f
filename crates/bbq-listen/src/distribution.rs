//! How connections and datagrams are spread over the workers: the names, and which of them a group was asked for.
//!
//! What a name means in sockets is decided in `open`.

use std::fmt;
use std::str::FromStr;

use crate::ListenError;

/// How connections and datagrams are spread over the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Distribution {
    /// `reuseport` where it works and there is more than one worker, else `shared`; the group says why.
    #[default]
    Auto,
    /// One socket per worker with `SO_REUSEPORT`; the kernel's hash of the peer's address chooses. Cheapest per
    /// connection, even over many clients, but what waits behind a busy worker waits.
    Reuseport,
    /// One socket that every worker accepts from: who is free takes the next. Every idle worker hears of a new
    /// connection and the first takes it, so a busy worker delays nobody, and a quiet one may get most.
    Shared,
}

impl Distribution {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Reuseport, Self::Shared];

    /// The word for it, as configuration and status write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Reuseport => "reuseport",
            Self::Shared => "shared",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Distribution {
    type Err = ListenError;

    fn from_str(word: &str) -> Result<Self, ListenError> {
        Self::ALL
            .into_iter()
            .find(|distribution| distribution.word() == word)
            .ok_or_else(|| ListenError::UnknownDistribution { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_an_unknown_one_names_the_known() {
        for distribution in Distribution::ALL {
            assert_eq!(distribution.to_string().parse::<Distribution>().unwrap(), distribution);
        }
        let message = "round-robin".parse::<Distribution>().unwrap_err().to_string();
        for word in ["round-robin", "auto", "reuseport", "shared"] {
            assert!(message.contains(word), "{message}");
        }
    }
}
