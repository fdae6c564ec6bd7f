//! Which of its servers a destination connects to.

/// The servers of a destination. The preferred server is number 0.
#[derive(Debug)]
pub(crate) struct Rotation {
    current: usize,
    /// Servers that will never take the records of this sender.
    refused: Vec<bool>,
    /// Servers tried in this round. A round over all servers that are left is one attempt.
    tried: usize,
}

impl Rotation {
    pub(crate) fn new(servers: usize) -> Rotation {
        Rotation { current: 0, refused: vec![false; servers], tried: 0 }
    }

    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// Whether the preferred server is another one and may come back.
    pub(crate) fn is_substitute(&self) -> bool {
        self.current > 0 && !self.refused[0]
    }

    pub(crate) fn back_to_preferred(&mut self) {
        self.current = 0;
    }

    /// Removes the current server from the rotation for good. Returns whether another one is left.
    pub(crate) fn refuse(&mut self) -> bool {
        self.refused[self.current] = true;
        self.refused.iter().any(|refused| !refused)
    }

    /// Changes to the next server. Returns whether that ends a round. After a server that has taken something, a new round begins.
    pub(crate) fn advance(&mut self, has_taken: bool) -> bool {
        let servers = self.refused.len();
        let next =
            (1..=servers).map(|step| (self.current + step) % servers).find(|&next| !self.refused[next]);
        self.current = next.unwrap_or(self.current);
        self.tried = if has_taken { 1 } else { self.tried + 1 };
        let round = self.tried >= self.refused.iter().filter(|refused| !**refused).count();
        if round {
            self.tried = 0;
        }
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_its_turn_and_one_that_refused_has_none() {
        let mut rotation = Rotation::new(3);
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push((rotation.current(), rotation.advance(false)));
        }
        assert_eq!(turns, [(0, false), (1, false), (2, true)]);
        assert!(!rotation.advance(true) && rotation.current() == 1 && rotation.is_substitute());
        assert!(rotation.refuse());
        rotation.advance(false);
        assert_eq!(rotation.current(), 2);
        rotation.advance(false);
        assert_eq!(rotation.current(), 0);
        assert!(rotation.refuse());
        rotation.advance(false);
        assert!(rotation.current() == 2 && !rotation.is_substitute());
        assert!(!rotation.refuse());
    }
}
