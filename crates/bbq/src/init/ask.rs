//! Questions, and what their answers become in a file of TOML.

use std::io::{BufRead, Write};

use anyhow::anyhow;
use bbq_server::config::{FILE_KEYS, Values};

use crate::outcome::misuse;

const SPOOL_KEY: &str = "spool.bytes_max";

/// A question.
pub(super) struct Question<'a> {
    pub(super) text: &'a str,
    pub(super) default: &'a str,
}

/// Who is asked.
pub(super) struct Asker<'a> {
    pub(super) input: &'a mut dyn BufRead,
    pub(super) out: &'a mut dyn Write,
    /// Whether somebody can answer again.
    pub(super) is_terminal: bool,
}

impl Asker<'_> {
    /// Asks until the answer is right, if somebody can answer again. An empty answer is the default.
    pub(super) fn ask(
        &mut self,
        question: &Question<'_>,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> anyhow::Result<String> {
        let Asker { input, out, is_terminal } = self;
        loop {
            write!(out, "{}\n  [{}] ", question.text, question.default)?;
            out.flush()?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 && *is_terminal {
                return Err(misuse(anyhow!("nothing is written, because the questions were not answered")));
            }
            if !*is_terminal {
                writeln!(out)?;
            }
            let answer = if line.trim().is_empty() { question.default } else { line.trim() };
            match check(answer) {
                Ok(()) => return Ok(answer.to_owned()),
                Err(why) if *is_terminal => writeln!(out, "  {why}")?,
                Err(why) => return Err(misuse(anyhow!("{answer:?}: {why}"))),
            }
        }
    }

    /// Asks how large the spool may be.
    pub(super) fn ask_spool(&mut self) -> anyhow::Result<String> {
        let key = FILE_KEYS.iter().find(|key| key.option.key == SPOOL_KEY);
        let (values, default) = key
            .map_or((Values::Size(1..=u64::MAX), ""), |key| (key.option.values.clone(), key.option.default));
        let text = "How much disk space may messages take while they wait for delivery?";
        self.ask(&Question { text, default }, &|answer| values.number(answer).map(drop))
    }
}

/// Which of the known words are in a list with commas.
///
/// # Errors
/// One of them is not known.
pub(super) fn words<const N: usize>(
    answer: &str,
    known: [&'static str; N],
) -> Result<Vec<&'static str>, String> {
    let find = |given: &str| known.into_iter().find(|word| *word == given);
    let given = answer.split(',').map(str::trim);
    given
        .map(|given| {
            find(given).ok_or_else(|| format!("there is no {given:?}; there is {}", known.join(", ")))
        })
        .collect()
}

/// A string of TOML, which is one of JSON, too.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
