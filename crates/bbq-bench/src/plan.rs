//! What an experiment is made of: sections of rows that are compared with each other.

use crate::metric::Metric;
use crate::run::Results;
use crate::sample::Sample;
use crate::settings::Settings;

/// Makes one sample: starts a server, loads it, ends it.
pub(crate) type Measure = Box<dyn Fn(&Settings) -> anyhow::Result<Sample>>;
/// Says what the results mean.
pub(crate) type Conclude = Box<dyn Fn(&Results<'_>) -> Vec<String>>;

/// A rate that a row is loaded at, and which of its figures tells whether it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) per_second: f64,
    pub(crate) figure: Metric,
}

/// One thing that is measured.
pub(crate) struct Row {
    pub(crate) name: String,
    /// None where the load goes as fast as the server.
    pub(crate) asked: Option<Asked>,
    pub(crate) measure: Measure,
}

impl Row {
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static,
    ) -> Row {
        Row { name: name.into(), asked: None, measure: Box::new(measure) }
    }

    /// The same at a rate; a row whose `figure` is below it says so.
    pub(crate) fn asking(self, per_second: f64, figure: Metric) -> Row {
        Row { asked: Some(Asked { per_second, figure }), ..self }
    }
}

/// How a section is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawing {
    /// A bar a row.
    Bars(Metric),
    /// A line through the rows, in their order.
    Curve { x: Metric, y: Metric },
}

/// Rows under one heading.
pub(crate) struct Section {
    pub(crate) title: String,
    /// What is done, and what an acknowledgement means where there is one.
    pub(crate) about: String,
    pub(crate) columns: Vec<Metric>,
    /// Each row's ratio to this one is shown, of this figure.
    pub(crate) baseline: Option<(usize, Metric)>,
    pub(crate) drawing: Drawing,
    pub(crate) rows: Vec<Row>,
}

#[cfg(test)]
impl Section {
    /// Without anything.
    pub(crate) fn blank() -> Section {
        Section {
            title: String::new(),
            about: String::new(),
            columns: Vec::new(),
            baseline: None,
            drawing: Drawing::Bars(Metric::Rate),
            rows: Vec::new(),
        }
    }
}

/// An experiment, ready to be run.
pub(crate) struct Plan {
    pub(crate) sections: Vec<Section>,
    /// What is not measured here and now, and why.
    pub(crate) left_out: Vec<String>,
    pub(crate) conclude: Conclude,
}

impl Plan {
    /// Without a word at the end.
    pub(crate) fn of(sections: Vec<Section>) -> Plan {
        Plan { sections, left_out: Vec::new(), conclude: Box::new(|_| Vec::new()) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.sections.iter().map(|section| section.rows.len()).sum()
    }
}
