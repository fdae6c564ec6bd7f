//! What an experiment is made of: its sections, and what their results mean.

use crate::results::Results;
use crate::section::Section;

/// Says what the results mean.
pub(crate) type Conclude = Box<dyn Fn(&Results<'_>) -> Vec<String>>;

/// An experiment, ready to be run.
pub(crate) struct Plan {
    pub(crate) sections: Vec<Section>,
    /// What is not measured, and why.
    pub(crate) left_out: Vec<String>,
    pub(crate) conclude: Conclude,
}

impl Plan {
    /// A plan without a conclusion.
    pub(crate) fn of(sections: Vec<Section>) -> Plan {
        Plan { sections, left_out: Vec::new(), conclude: Box::new(|_| Vec::new()) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.sections.iter().map(|section| section.rows.len()).sum()
    }
}
