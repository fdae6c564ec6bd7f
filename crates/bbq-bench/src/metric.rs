//! The figures that a sample may have: their names, their units, and how they are written.

use serde::Serialize;

/// Makes them, with the heads of their columns, which tell the unit.
macro_rules! metrics {
    ($($(#[$about:meta])* $name:ident $label:literal)*) => {
        /// What a figure is of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Metric {
            $($(#[$about])* $name,)*
        }

        impl Metric {
            /// Head of a column, with the unit.
            pub(crate) fn label(self) -> &'static str {
                match self {
                    $(Metric::$name => $label,)*
                }
            }
        }
    };
}

metrics! {
    /// Operations a second.
    Rate "k/s"
    /// Operations a second that were attempted.
    OfferedRate "offered k/s"
    /// Operations a second, by the time until the server had finished all of them.
    DeliveredRate "delivered k/s"
    /// Payload, in MB (a million bytes) a second.
    Throughput "MB/s"
    /// User and system time of all processes of the server, in microseconds an operation.
    ServerCpu "server CPU us"
    /// The same from the server's start to its end, all together, in seconds.
    ServerCpuWhole "server CPU, start to end, s"
    /// Of that, what the kernel took.
    ServerSystemCpu "of it system us"
    /// The load generator's own, in microseconds an operation.
    ClientCpu "client CPU us"
    /// Processor time of the server of what all processors have, in percent.
    ServerBusy "server busy %"
    /// Processor time of the load generator of what its threads could use, in percent.
    ClientBusy "client busy %"
    /// How long an operation took, in microseconds.
    LatencyMean "mean us"
    /// Half of them took at most so long.
    LatencyP50 "p50 us"
    /// 99 in 100.
    LatencyP99 "p99 us"
    /// 999 in 1,000.
    LatencyP999 "p99.9 us"
    /// All.
    LatencyMax "max us"
    /// Standard deviation.
    LatencyStdev "stdev us"
    /// Operations of the worker that had the most, in percent.
    LargestShare "largest share %"
    /// How many took longer than 20 ms.
    Over20 "over 20 ms"
    /// How many took longer than 50 ms.
    Over50 "over 50 ms"
    /// Operations that took longer than 100 ms, in percent.
    Late "over 100 ms %"
    /// Connections that found the queue of a listening socket full, on the whole machine.
    QueueOverflows "queue overflows"
    /// Sent and not received, in percent.
    Loss "lost %"
    /// Of these, counted by the server or by the kernel's counter of its socket, in percent.
    LossCounted "lost, counted %"
    /// Messages in the queue at most, as seen from time to time.
    PendingMax "pending max"
    /// Bytes of memory for one more connection.
    MemoryPerConnection "B/connection"
    /// From the last acknowledgement until everything was in the files of all sinks, in milliseconds.
    SinksBehind "sinks behind ms"
    /// From the start of a server until it says that it is ready, in milliseconds.
    Start "start ms"
    /// Sockets that listen.
    Sockets "sockets"
    /// Voluntary context switches of the calling thread, in a million operations.
    Sleeps "sleeps/million"
    /// Memory of the client's queue, as a part of its limit, in percent.
    QueueOfBound "queue of bound %"
    /// Records that found no room in the client, of all calls, in percent.
    Dropped "dropped %"
    /// Share of the processors that neither server nor load generator used, in percent.
    OthersBusy "others %"
}

impl Metric {
    /// In the unit of the label.
    pub(crate) fn show(self, value: f64) -> String {
        let value = match self {
            Metric::Rate | Metric::OfferedRate | Metric::DeliveredRate => value / 1000.0,
            _ => value,
        };
        match self {
            Metric::Over20
            | Metric::Over50
            | Metric::PendingMax
            | Metric::Sockets
            | Metric::MemoryPerConnection => format!("{value:.0}"),
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
