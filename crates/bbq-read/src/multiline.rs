//! Which lines belong together: a stack trace is one event.

use regex::bytes::{Regex, RegexBuilder};

/// The memory of a compiled pattern.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// The form of the option's values.
pub(crate) const FORM: &str = "java, python, go, ruby, dotnet, rust, start:REGEX, continue:REGEX";

/// A line that begins with white space belongs to the line before it, in every language.
const LANGUAGES: [(&str, &str, &str); 6] = [
    (
        "java",
        r"^[ \t]|^Caused by: |^Suppressed: |^\.\.\. \d+ |^[A-Za-z_$][\w$]*(\.[\w$]+)+(Exception|Error|Throwable)\b",
        "",
    ),
    (
        "python",
        r"^[ \t]|^$|^Traceback \(most recent call last\):|^(During handling of|The above exception)|^[A-Za-z_][\w.]*(Error|Exception|Warning|Interrupt|Exit|Iteration|Timeout)(:|$)",
        "",
    ),
    (
        "go",
        r"^[ \t]|^$|^goroutine \d+ |^\[signal |^created by |^exit status \d|^[\w./*()\-]+\.[\w.()*\[\]]+\([^ ]*\)$",
        "",
    ),
    ("ruby", r"^[ \t]|^from ", ""),
    ("dotnet", r"^[ \t]|^--- End of |^---> ", ""),
    // The line behind the place of a panic is its message.
    ("rust", r"^[ \t]|^note: |^stack backtrace:", r"panicked at .*:$"),
];

/// Which lines begin an event.
#[derive(Clone, Debug)]
pub(crate) enum Multiline {
    /// Those that match.
    Start(Regex),
    /// Those that do not match, unless the line before them matches the second pattern.
    Continue(Regex, Option<Regex>),
}

impl Multiline {
    /// Reads the option's value.
    pub(crate) fn of(text: &str) -> Result<Multiline, String> {
        if let Some(pattern) = text.strip_prefix("start:") {
            return compiled(pattern).map(Multiline::Start);
        }
        if let Some(pattern) = text.strip_prefix("continue:") {
            return compiled(pattern).map(|pattern| Multiline::Continue(pattern, None));
        }
        let Some((_, goes_on, opens)) = LANGUAGES.iter().find(|(word, ..)| *word == text) else {
            let words = LANGUAGES.map(|(word, ..)| word);
            return Err(format!("{text:?} is not one of {FORM}{}", bbq_spec::hint(text, &words)));
        };
        let opens = if opens.is_empty() { None } else { Some(compiled(opens)?) };
        Ok(Multiline::Continue(compiled(goes_on)?, opens))
    }

    /// Whether a line begins an event, when this is the line before it.
    pub(crate) fn begins(&self, line: &[u8], before: &[u8]) -> bool {
        match self {
            Multiline::Start(start) => start.is_match(line),
            Multiline::Continue(goes_on, opens) => {
                !goes_on.is_match(line) && !opens.as_ref().is_some_and(|opens| opens.is_match(before))
            }
        }
    }
}

fn compiled(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty; write a regular expression behind the colon".to_owned());
    }
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| format!("{pattern:?} is not a regular expression: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a text, each as its lines.
    fn events(rule: &str, text: &str) -> Vec<usize> {
        let rule = Multiline::of(rule).unwrap();
        let mut events: Vec<usize> = Vec::new();
        let mut before = "";
        for line in text.lines() {
            match events.last_mut() {
                Some(lines) if !rule.begins(line.as_bytes(), before.as_bytes()) => *lines += 1,
                _ => events.push(1),
            }
            before = line;
        }
        events
    }

    #[test]
    fn stack_traces_are_one_event() {
        for (rule, text, expected) in [
            (
                "java",
                "INFO a\nERROR b\njava.lang.IllegalStateException: x\n\tat a.B.c(B.java:1)\n\t... 3 more\nCaused by: java.io.IOException: y\n\tat a.b\nINFO c",
                &[1, 6, 1][..],
            ),
            (
                "python",
                "INFO a\nERROR b\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    g()\nValueError: x\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\"\na.b.KeyError: 1\nINFO c",
                &[1, 11, 1],
            ),
            (
                "go",
                "a\npanic: x\n\ngoroutine 1 [running]:\nmain.f(0x1)\n\t/a/b.go:3 +0x1d\nmain.(*T).g(...)\n\t/a/b.go:5\nexit status 2\nb c",
                &[1, 8, 1],
            ),
            ("ruby", "a\nb.rb:1:in 'f': x (RuntimeError)\n\tfrom b.rb:2:in 'g'\nc", &[1, 2, 1]),
            (
                "dotnet",
                "a\nUnhandled exception. System.Exception: x\n ---> System.IO.IOException: y\n   at A.B()\n   --- End of inner exception stack trace ---\n   at A.C()\nb",
                &[1, 5, 1],
            ),
            (
                "rust",
                "a\nthread 'main' panicked at src/main.rs:2:5:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`\nb",
                &[1, 3, 1],
            ),
            (r"start:^\d{4}-", "2026-01 a\nb\nc\n2026-02 d", &[3, 1]),
            (r"continue:^\+", "a\n+b\nc", &[2, 1]),
        ] {
            assert_eq!(events(rule, text), expected, "{rule}");
        }
    }

    #[test]
    fn a_wrong_rule_says_what_is_right() {
        for (text, part) in
            [("pyton", "did you mean \"python\""), ("start:", "empty"), ("start:(", "regular expression")]
        {
            let error = Multiline::of(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
