//! The figures that a sample may have: their names, their units, and how they are written.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// Neither: it is what was asked for, or explains another figure.
    None,
}

/// Makes them, with the heads of their columns, which tell the unit; and for plots what the figure is of, and which way is better.
macro_rules! metrics {
    ($($(#[$about:meta])* $name:ident $label:literal $unit:ident $better:ident $title:literal)*) => {
        /// What a figure is of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

            /// Of values, but not of the label: that is in thousands a second for rates.
            pub(crate) fn unit(self) -> Unit {
                match self {
                    $(Metric::$name => Unit::$unit,)*
                }
            }

            pub(crate) fn better(self) -> Better {
                match self {
                    $(Metric::$name => Better::$better,)*
                }
            }

            /// What it is of, for people: `{}` is the name of an operation, `{s}` that of several.
            fn title_pattern(self) -> &'static str {
                match self {
                    $(Metric::$name => $title,)*
                }
            }
        }
    };
}

metrics! {
    /// Operations a second.
    Rate "k/s" PerSecond Higher
        "{s} a second"
    /// Operations a second that were attempted.
    OfferedRate "offered k/s" PerSecond None
        "{s} sent a second"
    /// Operations a second, by the time until the server had finished all of them.
    DeliveredRate "delivered k/s" PerSecond Higher
        "{s} a second, until all are delivered"
    /// Payload, in MB (a million bytes) a second.
    Throughput "MB/s" MegabytesPerSecond Higher
        "Bytes of {s} a second"
    /// User and system time of all processes of the server, in microseconds an operation.
    ServerCpu "server CPU us" Microseconds Lower
        "Processor time of the server for each {}"
    /// The same from the server's start to its end, all together, in seconds.
    ServerCpuWhole "server CPU, start to end, s" Seconds Lower
        "Processor time of the server from its start to its end"
    /// Of that, what the kernel took.
    ServerSystemCpu "of it system us" Microseconds Lower
        "Processor time of the kernel in the server for each {}"
    /// The load generator's own, in microseconds an operation.
    ClientCpu "client CPU us" Microseconds None
        "Processor time of the load for each {}"
    /// Processor time of the server of what all processors have, in percent.
    ServerBusy "server busy %" Percent Lower
        "Share of all processors that the server needs"
    /// Processor time of the load generator of what its threads could use, in percent.
    ClientBusy "client busy %" Percent None
        "Share of its threads' time that the load needs"
    /// How long an operation took, in microseconds.
    LatencyMean "mean us" Microseconds Lower
        "Mean latency of a {}"
    /// Half of them took at most so long.
    LatencyP50 "p50 us" Microseconds Lower
        "Median latency of a {}"
    /// 99 in 100.
    LatencyP99 "p99 us" Microseconds Lower
        "Latency of a {} at p99"
    /// 999 in 1,000.
    LatencyP999 "p99.9 us" Microseconds Lower
        "Latency of a {} at p99.9"
    /// All.
    LatencyMax "max us" Microseconds Lower
        "Longest wait of a {}"
    /// Standard deviation.
    LatencyStdev "stdev us" Microseconds Lower
        "Standard deviation of the latency of a {}"
    /// Operations of the worker that had the most, in percent.
    LargestShare "largest share %" Percent None
        "Share of the worker that had the most {s}"
    /// How many took longer than 20 ms.
    Over20 "over 20 ms" Count Lower
        "{s} that took longer than 20 ms"
    /// How many took longer than 50 ms.
    Over50 "over 50 ms" Count Lower
        "{s} that took longer than 50 ms"
    /// Operations that took longer than 100 ms, in percent.
    Late "over 100 ms %" Percent Lower
        "{s} that took longer than 100 ms"
    /// Connections that found the queue of a listening socket full, on the whole machine.
    QueueOverflows "queue overflows" Count Lower
        "Connections that found a full queue"
    /// Sent and not received, in percent.
    Loss "lost %" Percent Lower
        "{s} lost"
    /// Of these, counted by the server or by the kernel's counter of its socket, in percent.
    LossCounted "lost, counted %" Percent None
        "{s} lost and counted"
    /// Messages in the queue at most, as seen from time to time.
    PendingMax "pending max" Count Lower
        "Most {s} in the queue"
    /// Bytes of memory for one more connection.
    MemoryPerConnection "B/connection" Bytes Lower
        "Memory of the server for each {}"
    /// From the last acknowledgement until everything was in the files of all sinks, in milliseconds.
    SinksBehind "sinks behind ms" Milliseconds Lower
        "How far sinks are behind acknowledgements"
    /// From the start of a server until it says that it is ready, in milliseconds.
    Start "start ms" Milliseconds Lower
        "Time to start"
    /// Sockets that listen.
    Sockets "sockets" Count None
        "Sockets that listen"
    /// Voluntary context switches of the calling thread, in a million operations.
    Sleeps "sleeps/million" Count Lower
        "Sleeps of the calling thread in a million {s}"
    /// Memory of the client's queue, as a part of its limit, in percent.
    QueueOfBound "queue of bound %" Percent None
        "Memory of the client's queue, of its limit"
    /// Records that found no room in the client, of all calls, in percent.
    Dropped "dropped %" Percent Lower
        "{s} whose record found no room"
    /// Share of the processors that neither server nor load generator used, in percent.
    OthersBusy "others %" Percent None
        "Share of all processors that others used"
}

impl Metric {
    /// What it is of, such as `Processor time of the server for each message`.
    pub(crate) fn title(self, operation: &str) -> String {
        let several = match operation.strip_suffix('y') {
            Some(stem) => format!("{stem}ies"),
            None => format!("{operation}s"),
        };
        let title = self.title_pattern().replace("{s}", &several).replace("{}", operation);
        let mut letters = title.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }

    /// One in the unit of the label.
    pub(crate) fn label_unit(self) -> f64 {
        if self.unit() == Unit::PerSecond { 1000.0 } else { 1.0 }
    }

    /// In the unit of the label.
    pub(crate) fn show(self, value: f64) -> String {
        let value = value / self.label_unit();
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

    #[test]
    fn a_title_names_the_operation() {
        assert_eq!(Metric::ServerCpu.title("query"), "Processor time of the server for each query");
        assert_eq!(Metric::Rate.title("query"), "Queries a second");
        assert_eq!(Metric::LatencyMax.title("new connection"), "Longest wait of a new connection");
    }
}
