//! The outcome of an experiment, for people, for programs, and as files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::catalogue::Experiment;
use crate::cell;
use crate::judged::{Judged, Verdict};
use crate::machine::Machine;
use crate::metric::Metric;
use crate::page::{Page, Part};
use crate::picture::Picture;
use crate::plan::Plan;
use crate::results::{Measured, OTHERS_PERCENT_MAX, Results, RowResults, SectionResults};
use crate::sample::Sample;
use crate::settings::Settings;
use crate::spread::Spread;
use crate::table::Table;

/// The directory of the plots, below that of the report.
const PLOTS: &str = "plots";

/// The outcome of an experiment.
#[derive(Debug, Serialize)]
pub struct Report {
    experiment: &'static str,
    summary: &'static str,
    machine: Machine,
    seconds: f64,
    /// How many rounds are complete.
    rounds: u32,
    rounds_asked: u32,
    #[serde(skip)]
    signal: Option<u8>,
    workers: usize,
    pub(crate) sections: Vec<SectionReport>,
    conclusions: Vec<String>,
    warnings: Vec<String>,
    left_out: Vec<String>,
    failures: Vec<String>,
}

/// Makes the directory of a report, before anything is measured.
///
/// # Errors
/// If nothing can be written there.
pub fn prepare(directory: &Path) -> anyhow::Result<()> {
    for directory in [directory, &directory.join(PLOTS)] {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        tempfile::tempfile_in(directory)
            .with_context(|| format!("cannot write in {}", directory.display()))?;
    }
    Ok(())
}

/// A section's rows.
#[derive(Debug, Serialize)]
pub(crate) struct SectionReport {
    pub(crate) title: String,
    pub(crate) about: String,
    columns: Vec<Metric>,
    /// Whose rows the ratios are to, and of which figure.
    baseline: Option<(String, Metric)>,
    rows: Vec<RowReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    marks: Vec<Judged>,
    #[serde(skip)]
    pub(crate) table: Table,
    #[serde(skip)]
    picture: Picture,
    #[serde(skip)]
    pub(crate) plot: String,
}

/// A row: its medians, and every sample.
#[derive(Debug, Serialize)]
struct RowReport {
    name: String,
    /// Of bbq, bbq-listen or its examples; else what they are compared with.
    ours: bool,
    figures: BTreeMap<Metric, Spread>,
    ratio: Option<Spread>,
    noisy: bool,
    /// Operations a second that were asked for; none where the load goes as fast as the server.
    asked_rate: Option<f64>,
    falls_short: bool,
    /// Its rate is the load's own limit.
    limited_by_load: bool,
    /// Its longest latencies are second tries, as the queue of a listening socket was full.
    queue_full: bool,
    samples: Vec<Option<Sample>>,
}

impl Report {
    pub(crate) fn of(
        experiment: &Experiment,
        settings: &Settings,
        machine: Machine,
        plan: &Plan,
        measured: &Measured<'_>,
    ) -> Report {
        let results = &measured.results;
        Report {
            experiment: experiment.name,
            summary: experiment.summary,
            machine,
            seconds: settings.duration.as_secs_f64(),
            rounds: measured.rounds,
            rounds_asked: settings.rounds,
            signal: measured.signal,
            workers: settings.workers,
            sections: results
                .sections
                .iter()
                .map(|section| SectionReport::of(section, (plan.verdicts)(results, section)))
                .collect(),
            conclusions: plan.conclude.as_ref().map_or_else(Vec::new, |conclude| conclude(results)),
            warnings: warnings(results),
            left_out: plan.left_out.clone(),
            failures: results.failures.clone(),
        }
    }

    /// Whether there is a row, every row has a figure, and every mark was measured and met.
    pub fn is_complete(&self) -> bool {
        let mut marks = self.sections.iter().flat_map(|section| &section.marks);
        let has_rows = self.sections.iter().any(|section| !section.rows.is_empty());
        has_rows && self.failures.is_empty() && marks.all(|mark| mark.verdict == Verdict::Met)
    }

    /// Rows that failed, and why.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The number of the signal that ended the run before its time.
    pub fn signal(&self) -> Option<u8> {
        self.signal
    }

    /// Whether no round is complete, so that there is no figure.
    pub fn is_empty(&self) -> bool {
        self.rounds == 0
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = self.heading();
        for section in self.sections.iter().filter(|section| !section.rows.is_empty()) {
            text += &format!("\n{}\n{}\n{}", section.title, wrapped(&section.about), section.table.text());
        }
        if !self.remarks().is_empty() {
            text += "\n";
        }
        self.remarks().iter().for_each(|remark| text += &format!("{}\n", wrapped(remark)));
        text
    }

    /// A page of docs/results; the plots are named as [`write`](Self::write) writes them, in `plots`.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("# {}: {}\n\n{}\n", self.experiment, self.summary, self.heading());
        for (index, section) in self.sections.iter().enumerate() {
            let plot = self.plot_name(index);
            text += &format!("## {}\n\n{}\n\n{}\n", section.title, section.about, section.table.markdown());
            text += &format!("![{}]({PLOTS}/{plot})\n{}\n\n", section.title, section.picture.comment());
        }
        self.remarks().iter().for_each(|remark| text += &format!("- {remark}\n"));
        text
    }

    /// For programs: every sample, in one object. Names are append-only.
    ///
    /// # Errors
    /// Never for what is measured here.
    pub fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Writes the page, its plots, the JSON and the tables into `directory`, which is made if needed. Returns the path
    /// of the page.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<std::path::PathBuf> {
        prepare(directory)?;
        let plots = directory.join(PLOTS);
        let write = |path: std::path::PathBuf, text: String| {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            anyhow::Ok(path)
        };
        for (index, section) in self.sections.iter().enumerate() {
            write(plots.join(self.plot_name(index)), section.plot.clone())?;
        }
        write(directory.join(format!("{}.json", self.experiment)), self.json()?)?;
        write(directory.join(format!("{}.md", self.experiment)), self.markdown())?;
        write(directory.join(format!("{}.html", self.experiment)), self.page().html())
    }

    fn page(&self) -> Page<'_> {
        Page {
            title: self.title(),
            heading: self.heading(),
            remarks: self.remarks(),
            sections: self.sections.iter().map(SectionReport::part).collect(),
        }
    }

    fn heading(&self) -> String {
        let Report { machine, seconds, rounds, workers, .. } = self;
        let (worker, round) = (plural(*workers as u64), plural(u64::from(*rounds)));
        format!(
            "{machine}\n{workers} worker{worker}; {rounds} round{round} of {seconds} s a row, in turn: medians, with \
             (least-most); ratios within each round.\n"
        )
    }

    fn title(&self) -> String {
        format!("bbq bench {}: {}", self.experiment, self.summary)
    }

    /// Conclusions, warnings, and what is missing.
    fn remarks(&self) -> Vec<String> {
        let labelled = |label: &str, remarks: &[String]| -> Vec<String> {
            remarks.iter().map(|remark| format!("{label}: {remark}")).collect()
        };
        let interrupted = match self.signal {
            None => Vec::new(),
            Some(_) => vec![format!("interrupted after {} of {} rounds", self.rounds, self.rounds_asked)],
        };
        let marks = self.sections.iter().flat_map(|section| {
            let name = self.name_of(section);
            section.marks.iter().map(move |mark| format!("mark: {name}, {mark}"))
        });
        [
            interrupted,
            marks.collect(),
            self.conclusions.clone(),
            labelled("warning", &self.warnings),
            labelled("left out", &self.left_out),
            labelled("failed", &self.failures),
        ]
        .concat()
    }

    /// A section's title up to a colon, where that is the only one of this name.
    fn name_of<'a>(&self, section: &'a SectionReport) -> &'a str {
        let short = section.title.split(':').next().unwrap_or_default();
        let is_short = |other: &&SectionReport| other.title.split(':').next() == Some(short);
        if self.sections.iter().filter(is_short).count() > 1 { &section.title } else { short }
    }

    fn plot_name(&self, section: usize) -> String {
        format!("{}-{}.svg", self.experiment, section + 1)
    }
}

impl SectionReport {
    fn part(&self) -> Part<'_> {
        let SectionReport { title, about, table, plot, .. } = self;
        Part { title, about, table, plot }
    }

    /// The verdicts are those beside its marks.
    fn of(results: &SectionResults<'_>, verdicts: Vec<String>) -> SectionReport {
        let section = results.section;
        let rows = results
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| RowReport::of(row, section.rows[index].is_ours, results.ratio(index)));
        let rows: Vec<RowReport> = rows.collect();
        let marks: Vec<Judged> = section.marks.iter().map(|mark| Judged::of(mark, results)).collect();
        let verdicts = marks.iter().map(Judged::to_string).chain(verdicts).collect();
        let (table, picture) = (table(results, &rows), Picture::of(section, verdicts));
        SectionReport {
            title: section.title.clone(),
            about: section.about.clone(),
            columns: section.columns.clone(),
            baseline: section.baseline.map(|(row, metric)| (section.rows[row].name.clone(), metric)),
            plot: picture.draw(&section.title, &table),
            table,
            picture,
            marks,
            rows,
        }
    }
}

impl RowReport {
    fn of(row: &RowResults<'_>, is_ours: bool, ratio: Option<Spread>) -> RowReport {
        let metrics = row.samples.iter().flatten().flat_map(|sample| sample.figures.keys().copied());
        RowReport {
            name: row.name.to_owned(),
            ours: is_ours,
            figures: metrics.filter_map(|metric| Some((metric, row.spread(metric)?))).collect(),
            ratio,
            noisy: row.is_noisy(),
            asked_rate: row.asked.map(|asked| asked.per_second),
            falls_short: row.falls_short(),
            limited_by_load: row.is_limited_by_load(),
            queue_full: row.has_retries(),
            samples: row.samples.clone(),
        }
    }

    /// Why its figures may mislead; mostly nothing.
    fn marks(&self) -> String {
        let marks = [
            (self.noisy, "noisy"),
            (self.falls_short, "rate not reached"),
            (self.limited_by_load, "load's limit"),
            (self.queue_full, "queue full"),
        ];
        let marks: Vec<&str> = marks.iter().filter(|(holds, _)| *holds).map(|(_, mark)| *mark).collect();
        marks.join(", ")
    }
}

/// The columns that have a figure in any row, the ratio, and a remark if a figure is not reliable.
fn table(results: &SectionResults<'_>, rows: &[RowReport]) -> Table {
    let section = results.section;
    let has = |metric: &Metric| rows.iter().any(|row| row.figures.contains_key(metric));
    let columns: Vec<Metric> = section.columns.iter().copied().filter(has).collect();
    let is_marked = rows.iter().any(|row| !row.marks().is_empty());
    let mut head: Vec<String> = vec![String::new()];
    head.extend(columns.iter().map(|metric| metric.label().to_owned()));
    if let Some((_, metric)) = section.baseline {
        head.push(format!("{}, ratio", metric.label()));
    }
    if is_marked {
        head.push(String::new());
    }
    let mut table = Table { rows: vec![head] };
    let none = || cell::NONE.to_owned();
    for row in rows {
        let mut cells = vec![row.name.clone()];
        cells.extend(columns.iter().map(|metric| {
            row.figures
                .get(metric)
                .map_or_else(none, |spread| cell::write(spread, |value| metric.show(value)))
        }));
        if section.baseline.is_some() {
            let show = |ratio| cell::write(&ratio, |value| format!("{value:.2}"));
            cells.push(row.ratio.map_or_else(none, show));
        }
        if is_marked {
            cells.push(row.marks());
        }
        table.rows.push(cells);
    }
    table
}

/// The ending of a word behind this number.
fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Breaks long lines between words; a terminal would break them within words.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 120;
    let mut lines = vec![String::new()];
    for (index, word) in text.split(' ').enumerate() {
        let (column, length) = (lines.last().map_or(0, String::len), word.len());
        match lines.last_mut() {
            Some(line) if index == 0 || column + 1 + length <= COLUMNS => {
                line.push_str(if index == 0 { "" } else { " " });
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Rows that say less than they seem to.
fn warnings(results: &Results<'_>) -> Vec<String> {
    let rows =
        || results.sections.iter().flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    let mut warnings = Vec::new();
    let noisy = rows().filter(|(_, row)| row.is_noisy()).count();
    if noisy > 0 {
        warnings.push(format!(
            "in {noisy} of {} rows others used more than {OTHERS_PERCENT_MAX} % of the processors: repeat it on a quiet machine",
            rows().count()
        ));
    }
    let short = rows().filter(|(_, row)| row.falls_short());
    let short: Vec<String> =
        short.map(|(section, row)| format!("{}, {}", section.section.title, row.name)).collect();
    if !short.is_empty() {
        warnings.push(format!(
            "{} of {} rows had less than the rate that was asked for; what they had is in its column: {}",
            short.len(),
            rows().count(),
            short.join("; ")
        ));
    }
    let limited: Vec<&str> =
        rows().filter(|(_, row)| row.is_limited_by_load()).map(|(_, row)| row.name).collect();
    if !limited.is_empty() {
        warnings.push(format!(
            "the load generator was busy to the end in {} of {} rows: their rates are its own limit, their server CPU is not",
            limited.len(),
            rows().count()
        ));
    }
    let retries = rows().filter(|(_, row)| row.has_retries()).count();
    if retries > 0 {
        warnings.push(format!(
            "in {retries} of {} rows the queue of a listening socket was full (`queue full`), and clients tried again after a second: the \
             longest latencies are these retries",
            rows().count()
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_words_and_short_text_is_left_alone() {
        assert_eq!(wrapped("  max sendtime:  5"), "  max sendtime:  5");
        let word = "x".repeat(59);
        assert_eq!(wrapped(&format!("{word} {word}x {word}")), format!("{word} {word}x\n{word}"));
        assert_eq!(wrapped(&"x".repeat(200)), "x".repeat(200));
    }
}
