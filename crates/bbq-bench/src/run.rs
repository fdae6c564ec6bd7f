//! The runner. It measures every row once in each round, A B A B, so that a change of the machine affects all rows.

use crate::catalogue::Experiment;
use crate::directory;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::Report;
use crate::results::{Measured, Results, RowResults, SectionResults};
use crate::sample::Sample;
use crate::section::Row;
use crate::settings::Settings;

/// Measures an experiment. SIGINT and SIGTERM end it; then the report is of the rounds that were whole.
///
/// # Errors
/// If the experiment cannot run on this machine. Failures of single rows are in the report.
pub fn run(experiment: &Experiment, plan: &Plan, settings: &Settings) -> anyhow::Result<Report> {
    let interrupt = Interrupt::install()?;
    let machine = Machine::describe(&settings.directory)?;
    let measured = measure(plan, settings, &interrupt);
    Ok(Report::of(experiment, settings, machine, plan, &measured))
}

fn measure<'a>(plan: &'a Plan, settings: &Settings, interrupt: &Interrupt) -> Measured<'a> {
    let results = |row: &'a Row| RowResults { name: &row.name, asked: row.asked, samples: Vec::new() };
    let mut all = Results {
        sections: plan
            .sections
            .iter()
            .map(|section| SectionResults { section, rows: section.rows.iter().map(results).collect() })
            .collect(),
        failures: Vec::new(),
    };
    let progress = Progress::new(plan.rows() as u64 * u64::from(settings.rounds));
    for round in 1..=settings.rounds {
        if let Err(signal) = measure_round(round, &mut all, settings, interrupt, &progress) {
            // A row with one sample more than others would be compared with rows of another moment.
            let whole = round - 1;
            all.sections.iter_mut().flat_map(|section| &mut section.rows).for_each(|row| {
                row.samples.truncate(whole as usize);
            });
            return Measured { results: all, rounds: whole, signal: Some(signal) };
        }
    }
    Measured { results: all, rounds: settings.rounds, signal: None }
}

/// Measures every row once; an error is the signal that interrupted the round.
fn measure_round(
    round: u32,
    all: &mut Results<'_>,
    settings: &Settings,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<(), u8> {
    for section in &mut all.sections {
        for (row, results) in section.section.rows.iter().zip(&mut section.rows) {
            progress.show(format!("round {round}: {}, {}", section.section.title, row.name));
            let sample = sample(row, settings);
            // An interrupted row has failed because of the signal.
            interrupt.signal().map_or(Ok(()), Err)?;
            progress.step();
            results.samples.push(match sample {
                Ok(sample) => Some(sample),
                Err(error) => {
                    let title = &section.section.title;
                    all.failures.push(format!("{title}, {}, round {round}: {error:#}", row.name));
                    None
                }
            });
        }
    }
    Ok(())
}

/// Measures a row with a directory of its own, which is removed.
fn sample(row: &Row, settings: &Settings) -> anyhow::Result<Sample> {
    let directory = directory::make(&settings.directory)?;
    (row.measure)(&Settings { directory: directory.path().to_owned(), ..settings.clone() })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::metric::Metric;
    use crate::section::Section;
    use crate::spread::Spread;

    fn settings(rounds: u32) -> Settings {
        Settings { rounds, ..Settings::blank() }
    }

    fn section(rows: Vec<Row>) -> Section {
        Section {
            title: "rows".to_owned(),
            columns: vec![Metric::Rate],
            baseline: Some((0, Metric::Rate)),
            rows,
            ..Section::blank()
        }
    }

    fn sample_of(rate: f64) -> Sample {
        let mut sample = Sample::default();
        sample.set(Metric::Rate, rate);
        sample
    }

    #[test]
    fn rows_run_in_turn_and_ratios_are_of_one_round() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let row = |name: &'static str, factor: f64| {
            let order = Rc::clone(&order);
            Row::new(name, move |_| {
                order.borrow_mut().push(name);
                let round = order.borrow().iter().filter(|other| **other == name).count();
                Ok(sample_of(factor * round as f64))
            })
        };
        let plan = Plan::of(vec![section(vec![row("a", 1.0), row("b", 3.0)])]);
        let results = measure(&plan, &settings(3), &Interrupt::default()).results;
        assert_eq!(*order.borrow(), ["a", "b", "a", "b", "a", "b"]);
        let section = &results.sections[0];
        assert_eq!(
            section.rows[1].spread(Metric::Rate).unwrap(),
            Spread { median: 6.0, least: 3.0, most: 9.0 }
        );
        // The machine got faster from round to round, and the ratio did not.
        assert_eq!(section.ratio(1).unwrap(), Spread { median: 3.0, least: 3.0, most: 3.0 });
    }

    #[test]
    fn an_interrupted_run_has_its_whole_rounds() {
        let interrupt = Interrupt::default();
        let raised = interrupt.clone();
        let made = RefCell::new(0);
        let bad = Row::new("bad", |_| anyhow::bail!("no such server"));
        let last = Row::new("interrupted in round 3", move |_| {
            *made.borrow_mut() += 1;
            if *made.borrow() == 3 {
                raised.raise();
                anyhow::bail!("interrupted");
            }
            Ok(sample_of(1.0))
        });
        let plan = Plan::of(vec![section(vec![bad, last])]);
        let measured = measure(&plan, &settings(9), &interrupt);
        assert_eq!((measured.rounds, measured.signal), (2, Some(2)));
        // What failed in the round that is not whole has failed, too.
        assert_eq!(measured.results.failures.len(), 3);
        assert!(measured.results.sections[0].rows.iter().all(|row| row.samples.len() == 2));
    }

    #[test]
    fn a_row_below_the_rate_that_was_asked_for_says_so() {
        let row = |name, rate| Row::new(name, move |_| Ok(sample_of(rate)));
        let rows = vec![
            row("slow", 900.0).asking(1000.0, Metric::Rate),
            row("reached", 990.0).asking(1000.0, Metric::Rate),
            row("not asked", 1.0),
        ];
        let plan = Plan::of(vec![section(rows)]);
        let results = measure(&plan, &settings(2), &Interrupt::default()).results;
        let short: Vec<bool> = results.sections[0].rows.iter().map(RowResults::falls_short).collect();
        assert_eq!(short, [true, false, false]);
    }

    #[test]
    fn a_row_that_fails_is_named_and_the_others_go_on() {
        let rows = vec![
            Row::new("bad", |_| anyhow::bail!("no such server")),
            Row::new("good", |_| Ok(sample_of(1.0))),
        ];
        let plan = Plan::of(vec![section(rows)]);
        let results = measure(&plan, &settings(2), &Interrupt::default()).results;
        assert_eq!(
            results.failures,
            ["rows, bad, round 1: no such server", "rows, bad, round 2: no such server"]
        );
        assert!(results.sections[0].rows[0].spread(Metric::Rate).is_none());
        assert!(results.sections[0].rows[1].spread(Metric::Rate).is_some());
        assert!(results.sections[0].ratio(1).is_none());
    }
}
