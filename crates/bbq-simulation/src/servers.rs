//! The servers that a client or a sink knows, of which it uses one at a time.

/// One server or two, by their numbers; the first is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Servers {
    pub(crate) first: usize,
    pub(crate) second: Option<usize>,
}

impl Servers {
    /// One server.
    pub(crate) fn one(server: usize) -> Servers {
        Servers { first: server, second: None }
    }

    /// Their numbers.
    pub(crate) fn numbers(self) -> impl Iterator<Item = usize> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// The same with another server in place of one of them.
    pub(crate) fn with(self, one: usize, other: usize) -> Servers {
        let change = |server| if server == one { other } else { server };
        Servers { first: change(self.first), second: self.second.map(change) }
    }

    /// How many they are.
    pub(crate) fn count(self) -> usize {
        self.numbers().count()
    }

    /// The number of the server at this place of the list.
    pub(crate) fn at(self, index: usize) -> usize {
        self.second.filter(|_| index > 0).unwrap_or(self.first)
    }
}
