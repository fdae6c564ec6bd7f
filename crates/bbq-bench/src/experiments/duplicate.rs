//! Seed 004: duplicated listen sockets that all workers share, with one listen address and with two.

use std::time::Duration;

use super::listen::{Case, section};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::results::Results;
use crate::section::Section;
use crate::settings::Settings;

const DISTRIBUTIONS: [&str; 5] = ["shared", "duplicate=1", "duplicate=2", "duplicate=4", "reuseport"];

pub(crate) fn plan(_settings: &Settings) -> anyhow::Result<Plan> {
    let case = |title, addresses| Case { title, addresses, close: true, work: Duration::ZERO };
    let sections: Vec<Section> =
        [case("case 1: one listen address", 1), case("case 2: two listen addresses", 2)]
            .map(|case| section(case, &DISTRIBUTIONS))
            .into();
    Ok(Plan { conclude: Some(Box::new(conclude)), ..Plan::of(sections) })
}

fn conclude(results: &Results<'_>) -> Vec<String> {
    let gains = ["+46.3 %", "+10 %"];
    let duplicate = DISTRIBUTIONS.iter().position(|name| *name == "duplicate=2").unwrap_or(0);
    results
        .sections
        .iter()
        .zip(gains)
        .filter_map(|(section, there)| {
            let ratio = section.ratio(duplicate)?;
            let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
            Some(format!(
                "{}: two duplicated sockets have {} of the {} of one ({} to {}); published was {there}, on many more processors.",
                section.section.title,
                percent(ratio.median),
                Metric::Rate.label(),
                percent(ratio.least),
                percent(ratio.most),
            ))
        })
        .collect()
}
