//! What an experiment is made of: its sections, and what their results mean.

use std::fmt;

use crate::results::{Results, SectionResults};
use crate::section::Section;

/// Says what the results mean.
pub(crate) type Conclude = Box<dyn Fn(&Results<'_>) -> Vec<String>>;

/// Says what is decided of a section, for its plot; its marks speak for themselves.
pub(crate) type Verdicts = Box<dyn Fn(&Results<'_>, &SectionResults<'_>) -> Vec<String>>;

/// An experiment, ready to be run.
pub struct Plan {
    pub(crate) sections: Vec<Section>,
    /// What is not measured, and why.
    pub(crate) left_out: Vec<String>,
    /// `None` if each section speaks for itself.
    pub(crate) conclude: Option<Conclude>,
    pub(crate) verdicts: Verdicts,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("rows", &self.rows()).finish_non_exhaustive()
    }
}

impl Plan {
    /// A plan without a conclusion.
    pub(crate) fn of(sections: Vec<Section>) -> Plan {
        Plan { sections, left_out: Vec::new(), conclude: None, verdicts: Box::new(|_, _| Vec::new()) }
    }

    /// Keeps the sections whose titles begin with one of these words; without words all. What the results of all mean together is
    /// only said if no section is left out.
    ///
    /// # Errors
    /// If no title begins with one of the words.
    pub fn keep(mut self, words: &[String]) -> anyhow::Result<Plan> {
        if words.is_empty() {
            return Ok(self);
        }
        let begins = |word: &String| self.sections.iter().any(|section| section.title.starts_with(word));
        if let Some(word) = words.iter().find(|word| !begins(word)) {
            let titles: Vec<&str> = self.sections.iter().map(|section| section.title.as_str()).collect();
            anyhow::bail!("no section begins with {word:?}; there are {}", titles.join("; "));
        }
        let all = self.sections.len();
        self.sections.retain(|section| words.iter().any(|word| section.title.starts_with(word)));
        if self.sections.len() < all {
            if self.conclude.take().is_some() {
                self.left_out
                    .push("the conclusion: it needs every section, and --only leaves out some".to_owned());
            }
            self.verdicts = Box::new(|_, _| Vec::new());
        }
        Ok(self)
    }

    pub(crate) fn rows(&self) -> usize {
        self.sections.iter().map(|section| section.rows.len()).sum()
    }
}
