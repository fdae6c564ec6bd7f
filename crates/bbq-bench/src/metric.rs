//! The figures that a sample may have: their names, their units, and how they are written.

use serde::Serialize;

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Operations a second.
    Rate,
    /// Operations a second that were attempted.
    OfferedRate,
    /// Payload, in MB (a million bytes) a second.
    Throughput,
    /// User and system time of all processes of the server, in microseconds an operation.
    ServerCpu,
    /// Of that, what the kernel took.
    ServerSystemCpu,
    /// The load generator's own, in microseconds an operation.
    ClientCpu,
    /// Processor time of the server of what all processors have, in percent.
    ServerBusy,
    /// Processor time of the load generator of what its threads could use, in percent.
    ClientBusy,
    /// How long an operation took, in microseconds.
    LatencyMean,
    /// Half of them took at most so long.
    LatencyP50,
    /// 99 in 100.
    LatencyP99,
    /// 999 in 1,000.
    LatencyP999,
    /// All.
    LatencyMax,
    /// Standard deviation.
    LatencyStdev,
    /// Operations of the worker that had the most, in percent.
    LargestShare,
    /// Operations that took longer than 100 ms, in percent.
    Late,
    /// Sent and not received, in percent.
    Loss,
    /// Of these, counted by the server or by the kernel's counter of its socket, in percent.
    LossCounted,
    /// Messages in the queue at most, as seen from time to time.
    PendingMax,
    /// Bytes of memory for one more connection.
    MemoryPerConnection,
    /// From the last acknowledgement until everything was in the files of all sinks, in milliseconds.
    SinksBehind,
    /// From the start of a server until it says that it is ready, in milliseconds.
    Start,
    /// Sockets that listen.
    Sockets,
    /// Voluntary context switches of the calling thread, in a million operations.
    Sleeps,
    /// Memory of the client's queue, as a part of its limit, in percent.
    QueueOfBound,
    /// Records that found no room in the client, of all calls, in percent.
    Dropped,
    /// Share of the processors that neither server nor load generator used, in percent.
    OthersBusy,
}

impl Metric {
    /// Head of a column, with the unit.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Metric::Rate => "k/s",
            Metric::OfferedRate => "offered k/s",
            Metric::Throughput => "MB/s",
            Metric::ServerCpu => "server CPU us",
            Metric::ServerSystemCpu => "of it system us",
            Metric::ClientCpu => "client CPU us",
            Metric::ServerBusy => "server busy %",
            Metric::ClientBusy => "client busy %",
            Metric::LatencyMean => "mean us",
            Metric::LatencyP50 => "p50 us",
            Metric::LatencyP99 => "p99 us",
            Metric::LatencyP999 => "p99.9 us",
            Metric::LatencyMax => "max us",
            Metric::LatencyStdev => "stdev us",
            Metric::LargestShare => "largest share %",
            Metric::Late => "over 100 ms %",
            Metric::Loss => "lost %",
            Metric::LossCounted => "lost, counted %",
            Metric::PendingMax => "pending max",
            Metric::MemoryPerConnection => "B/connection",
            Metric::SinksBehind => "sinks behind ms",
            Metric::Start => "start ms",
            Metric::Sockets => "sockets",
            Metric::Sleeps => "sleeps/million",
            Metric::QueueOfBound => "queue of bound %",
            Metric::Dropped => "dropped %",
            Metric::OthersBusy => "others %",
        }
    }

    /// In the unit of the label.
    pub(crate) fn show(self, value: f64) -> String {
        let value = match self {
            Metric::Rate | Metric::OfferedRate => value / 1000.0,
            _ => value,
        };
        match self {
            Metric::PendingMax | Metric::Sockets | Metric::MemoryPerConnection => format!("{value:.0}"),
            _ => significant(value),
        }
    }
}

/// Three significant digits; above 100, none behind the point.
fn significant(value: f64) -> String {
    let digits = match value.abs() {
        x if x >= 100.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 || x == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_digits_in_the_unit_of_the_label() {
        assert_eq!(Metric::Rate.show(123_456.0), "123");
        assert_eq!(Metric::Rate.show(1_234.0), "1.23");
        assert_eq!(Metric::ServerCpu.show(15.44), "15.4");
        assert_eq!(Metric::ServerCpu.show(0.0631), "0.063");
        assert_eq!(Metric::Loss.show(0.0), "0.00");
        assert_eq!(Metric::PendingMax.show(1647.0), "1647");
    }
}
