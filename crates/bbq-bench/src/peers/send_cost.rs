//! What a call costs of the libraries that applications use to hand messages on: ZeroMQ and spdlog, by bench/peers/send_cost.cpp,
//! which measures itself as the rows of bbq do.

use serde::Deserialize;

use super::floor::{Floor, available_in};
use crate::metric::Metric;
use crate::process::{END_WITHIN, Process};
use crate::sample::Sample;
use crate::settings::Settings;

/// A library, and the program that calls it.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    program: Floor,
    word: &'static str,
    name: &'static str,
}

/// What the program says at its end; times in nanoseconds.
#[derive(Debug, Deserialize)]
struct Said {
    calls: u64,
    seconds: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    sleeps: f64,
}

const LIBRARIES: [(&str, &str); 2] = [
    ("zmq", "zmq_send, ZeroMQ, the receiver keeps up"),
    ("spdlog", "spdlog's asynchronous logger, to a file"),
];

/// Compiles it, if peers are asked for.
pub(crate) fn available(settings: &Settings, left_out: &mut Vec<String>) -> Vec<Library> {
    let Some(program) = available_in("bench/peers", settings, "send_cost", left_out) else {
        return Vec::new();
    };
    LIBRARIES.map(|(word, name)| Library { program: program.clone(), word, name }).into()
}

impl Library {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn measure(&self, settings: &Settings) -> anyhow::Result<Sample> {
        let mut command = self.program.command();
        command.arg(self.word).arg(settings.duration.as_millis().max(1).to_string());
        command.current_dir(&settings.directory);
        let limit = settings.duration + END_WITHIN;
        let said: Said = Process::measured("send_cost", &mut command, &settings.directory, limit)?;
        let mut sample = Sample::default();
        sample.set(Metric::Rate, said.calls as f64 / said.seconds);
        for (metric, nanoseconds) in [
            (Metric::LatencyP50, said.p50),
            (Metric::LatencyP99, said.p99),
            (Metric::LatencyP999, said.p999),
            (Metric::LatencyMax, said.max),
        ] {
            sample.set(metric, nanoseconds / 1000.0);
        }
        sample.set(Metric::Sleeps, said.sleeps * 1e6 / said.calls as f64);
        Ok(sample)
    }
}
