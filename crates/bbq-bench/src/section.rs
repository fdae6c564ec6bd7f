//! A section of an experiment: rows that are compared with each other.

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::sample::Sample;
use crate::settings::Settings;

/// Makes one sample in the directory of its settings: starts a server, loads it, ends it.
pub(crate) type Measure = Box<dyn Fn(&Settings) -> anyhow::Result<Sample>>;

/// The rate that a row is loaded at, and the figure that shows whether the load reached it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) per_second: f64,
    pub(crate) figure: Metric,
}

/// One thing that is measured.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Whether it is of bbq, bbq-listen or an example of it, as users have it; not another's server, bare C, the disk alone, or bbq
    /// with a part switched off.
    pub(crate) is_ours: bool,
    /// `None` if the load goes as fast as the server.
    pub(crate) asked: Option<Asked>,
    pub(crate) measure: Measure,
}

impl Row {
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static,
    ) -> Row {
        Row { name: name.into(), is_ours: true, asked: None, measure: Box::new(measure) }
    }

    /// What ours are compared with.
    pub(crate) fn other(
        name: impl Into<String>,
        measure: impl Fn(&Settings) -> anyhow::Result<Sample> + 'static,
    ) -> Row {
        Row { is_ours: false, ..Row::new(name, measure) }
    }

    /// The same row at a rate. The report names it if its `figure` stays below the rate.
    pub(crate) fn asking(self, per_second: f64, figure: Metric) -> Row {
        Row { asked: Some(Asked { per_second, figure }), ..self }
    }
}

/// How a section is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Drawing {
    /// A bar for each row.
    Bars(Metric),
    /// A line through the rows, in their order.
    Curve { x: Metric, y: Metric },
}

/// What a row of a section may cost its server at most.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) row: String,
    /// Times the cost of the row `floor` in the same round; in microseconds of processor time if there is none.
    pub(crate) limit: f64,
    pub(crate) floor: Option<String>,
    /// Rows to show a ratio to as well, without a verdict.
    pub(crate) beside: Vec<String>,
}

/// Rows under one heading.
pub(crate) struct Section {
    pub(crate) title: String,
    /// What is done, and what an acknowledgement means if there is one.
    pub(crate) about: String,
    /// What an operation is, in a word or two: figures are of one.
    pub(crate) operation: &'static str,
    pub(crate) columns: Vec<Metric>,
    /// The row and the figure that each row's ratio is taken to.
    pub(crate) baseline: Option<(usize, Metric)>,
    pub(crate) drawing: Drawing,
    pub(crate) rows: Vec<Row>,
    /// What its rows are held to; most are not.
    pub(crate) marks: Vec<Mark>,
}

impl Section {
    /// A section of messages, without a baseline and without marks.
    pub(crate) fn new(
        title: impl Into<String>,
        about: impl Into<String>,
        columns: &[Metric],
        drawing: Drawing,
        rows: Vec<Row>,
    ) -> Section {
        let (title, about, columns) = (title.into(), about.into(), columns.to_vec());
        let operation = "message";
        Section { title, about, operation, columns, baseline: None, drawing, rows, marks: Vec::new() }
    }

    /// The same of other operations than messages.
    pub(crate) fn of(self, operation: &'static str) -> Section {
        Section { operation, ..self }
    }

    /// The same with ratios to the row of this name, if it is there.
    pub(crate) fn beside(self, name: &str, metric: Metric) -> Section {
        let row = self.rows.iter().position(|row| row.name == name);
        Section { baseline: row.map(|row| (row, metric)), ..self }
    }

    /// A section without content.
    #[cfg(test)]
    pub(crate) fn blank() -> Section {
        Section::new("", "", &[], Drawing::Bars(Metric::Rate), Vec::new())
    }
}
