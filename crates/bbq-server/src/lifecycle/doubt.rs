//! Whether a change of the configuration may be half of one: the file is still being written or was cut, or its values got lost.
//!
//! Such a change is refused once, with what it would take away. The same change is made when it is asked for again soon, or when
//! whoever asks says so. A reload and an upgrade read the same file, so both are checked here.
//!
//! Invariant: a change that adds or replaces single listeners, readers, sinks or values is never in doubt.

use std::time::{Duration, Instant};

use bbq_config::Config;

/// A change that is asked for again within this time is meant. A person has read the refusal by then, and two programs that
/// reload for reasons of their own seldom do so this close together.
const AGAIN: Duration = Duration::from_secs(10);
/// So many names stand in a refusal. It is one line of the log.
const NAMED_MAX: usize = 4;

/// What reads the configuration again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Reload,
    Upgrade,
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Reload => "reload",
            Change::Upgrade => "upgrade",
        }
    }

    /// How to say that it is meant.
    fn again(self) -> String {
        let seconds = AGAIN.as_secs();
        match self {
            Change::Reload => {
                format!("send SIGHUP again within {seconds} s, or run bbq reload --anyway")
            }
            Change::Upgrade => format!("send SIGUSR2 again within {seconds} s"),
        }
    }
}

/// The change that was refused last.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Option<Refused>);

#[derive(Debug)]
struct Refused {
    change: Change,
    config: Config,
    at: Instant,
}

impl Doubts {
    /// Checks a change from the configuration in force to another one.
    ///
    /// # Errors
    /// What it would take away, and how to say that this is meant.
    pub(crate) fn check(
        &mut self,
        change: Change,
        old: &Config,
        new: &Config,
        anyway: bool,
        now: Instant,
    ) -> Result<(), String> {
        let before = self.0.take();
        let is_asked_again = before.is_some_and(|before| {
            before.change == change
                && before.config == *new
                && now.saturating_duration_since(before.at) <= AGAIN
        });
        if anyway || is_asked_again {
            return Ok(());
        }
        let Some(missing) = missing(old, new) else { return Ok(()) };
        self.0 = Some(Refused { change, config: new.clone(), at: now });
        Err(format!("{missing}; if that is intended, {}", change.again()))
    }
}

/// What a change would take away that may not be meant, if anything.
fn missing(old: &Config, new: &Config) -> Option<String> {
    if old == new {
        return None;
    }
    let mut found = Vec::new();
    let stays = |address| new.listen.iter().any(|spec| spec.address == address);
    let is_configured = old.origins.is_given("listen") && !old.listen.is_empty();
    if is_configured && !old.listen.iter().any(|spec| stays(spec.address.clone())) {
        let gone = names(old.listen.iter().map(|spec| spec.source.as_str()));
        let instead =
            if new.origins.is_given("listen") { "" } else { ", and open the default listeners instead" };
        found.push(format!("it would close every listener ({gone}){instead}"));
    }
    if !old.read.is_empty() && new.read.is_empty() {
        let gone = names(old.read.iter().map(|spec| spec.source.as_str()));
        found.push(format!("it would remove every reader ({gone})"));
    }
    let is_fallback = old.origins.is_given("sink") && !new.origins.is_given("sink");
    if !old.sinks.is_empty() && (new.sinks.is_empty() || is_fallback) {
        let gone = names(old.sinks.iter().map(|spec| spec.name.as_str()));
        let instead = if new.sinks.is_empty() { "" } else { ", and use the default sink instead" };
        found.push(format!("it would remove every sink ({gone}){instead}"));
    }
    let set = old.origins.set_by_file();
    if !set.is_empty() && new.origins.set_by_file().is_empty() {
        let set = names(set.into_iter());
        found.push(format!("it would set everything back to the defaults ({set} came from the file before)"));
    }
    found.extend(cut_off(old.origins.file_text(), new.origins.file_text()));
    (!found.is_empty()).then(|| found.join("; "))
}

/// Says that the file is only the beginning of what it was.
fn cut_off(old: &str, new: &str) -> Option<String> {
    let (old, new) = (old.trim_end(), new.trim_end());
    let rest = old.strip_prefix(new).filter(|rest| !new.is_empty() && !rest.is_empty())?;
    let (lines, missing) = (new.lines().count(), rest.lines().filter(|line| !line.trim().is_empty()).count());
    let what = if missing == 1 { "a line".to_owned() } else { format!("{missing} lines") };
    Some(format!("the file is cut off: it ends with line {lines}, and lacks {what} of the earlier file"))
}

/// The first names.
fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let first: Vec<&str> = names.take(NAMED_MAX).collect();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    first.join(", ") + &rest
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sinks::KINDS;
    use bbq_config::Overrides;

    const WHOLE: &str = "listen = [\"lines+tcp://127.0.0.1:1\", \"lines+tcp://127.0.0.1:2\"]\n\
                         [[sink]]\nspec = \"null:\"\nname = \"a\"\n[[sink]]\nspec = \"null:\"\nname = \"b\"\n";

    fn config(text: &str) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bbq.toml");
        fs::write(&path, text).unwrap();
        Config::load(&KINDS, Some(&path), &Overrides::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn doubt(old: &str, new: &str) -> Option<String> {
        missing(&config(old), &config(new))
    }

    #[test]
    fn half_of_a_change_is_in_doubt_and_a_whole_one_is_not() {
        let cut = WHOLE.find("[[sink]]\nspec = \"null:\"\nname = \"b\"").unwrap();
        let doubts = doubt(WHOLE, &WHOLE[..cut]).unwrap();
        assert!(doubts.contains("ends with line 4, and lacks 3 lines of the earlier file"), "{doubts}");
        let no_sinks = WHOLE.split_once("[[").unwrap().0;
        let doubts = doubt(WHOLE, no_sinks).unwrap();
        assert!(doubts.contains("every sink (a, b), and use the default sink"), "{doubts}");
        let doubts = doubt(WHOLE, "# nothing\n").unwrap();
        for words in
            ["every listener (lines+tcp://127.0.0.1:1, ", "every sink (a, b)", "back to the defaults"]
        {
            assert!(doubts.contains(words), "{doubts}");
        }
        let doubts = doubt(WHOLE, &WHOLE.replace("127.0.0.1", "127.0.0.2")).unwrap();
        assert!(doubts.contains("every listener") && !doubts.contains("sink"), "{doubts}");
        let elsewhere = WHOLE.replace(":2", ":3");
        for whole in
            [WHOLE, &elsewhere, &WHOLE.replacen("null:", "file:x", 1), &(WHOLE.to_owned() + "# more\n")]
        {
            assert_eq!(doubt(WHOLE, whole), None, "{whole}");
        }
        assert_eq!(doubt("# nothing\n", WHOLE), None, "the defaults were never configured");
    }

    #[test]
    fn the_same_change_is_made_when_it_is_asked_for_again_soon() {
        let (old, half, other) = (config(WHOLE), config("# nothing\n"), config("workers = 1\n"));
        let (mut doubts, start) = (Doubts::default(), Instant::now());
        let mut check = |change, new: &Config, anyway, seconds| {
            doubts.check(change, &old, new, anyway, start + Duration::from_secs(seconds)).is_ok()
        };
        assert!(!check(Change::Reload, &half, false, 0));
        assert!(!check(Change::Reload, &other, false, 1), "another change");
        assert!(!check(Change::Upgrade, &other, false, 2), "by other means");
        assert!(check(Change::Upgrade, &other, false, 3));
        assert!(!check(Change::Upgrade, &other, false, 4), "each is asked twice");
        assert!(!check(Change::Upgrade, &other, false, 15), "too late");
        assert!(check(Change::Reload, &other, true, 16));
    }
}
