//! Whose turn it is among the servers of an outlet.

/// The preferred server is number 0.
#[derive(Debug)]
pub(crate) struct Rotation {
    present: usize,
    /// Servers that will never take what this sender has.
    refused: Vec<bool>,
    /// Servers tried in a row: all that are left are one attempt.
    tried: usize,
}

impl Rotation {
    /// Begins with the preferred one.
    pub(crate) fn new(servers: usize) -> Rotation {
        Rotation { present: 0, refused: vec![false; servers], tried: 0 }
    }

    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// Whether a server that is preferred to the present one may come back.
    pub(crate) fn is_substitute(&self) -> bool {
        self.present > 0 && !self.refused[0]
    }

    pub(crate) fn back_to_preferred(&mut self) {
        self.present = 0;
    }

    /// The present server will never take anything; `false` when no other is left.
    pub(crate) fn refuse(&mut self) -> bool {
        self.refused[self.present] = true;
        self.refused.iter().any(|refused| !refused)
    }

    /// Goes on to the next server; answers whether every one was tried since it last answered `true`. One that has taken
    /// something begins the count anew.
    pub(crate) fn go_on(&mut self, has_taken: bool) -> bool {
        let servers = self.refused.len();
        let next =
            (1..=servers).map(|step| (self.present + step) % servers).find(|&next| !self.refused[next]);
        self.present = next.unwrap_or(self.present);
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
            turns.push((rotation.present(), rotation.go_on(false)));
        }
        assert_eq!(turns, [(0, false), (1, false), (2, true)]);
        assert!(!rotation.go_on(true) && rotation.present() == 1 && rotation.is_substitute());
        assert!(rotation.refuse());
        rotation.go_on(false);
        assert_eq!(rotation.present(), 2);
        rotation.go_on(false);
        assert_eq!(rotation.present(), 0);
        assert!(rotation.refuse());
        rotation.go_on(false);
        assert!(rotation.present() == 2 && !rotation.is_substitute());
        assert!(!rotation.refuse());
    }
}
