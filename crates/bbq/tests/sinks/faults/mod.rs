//! Every kind of sink with every fault that its destination can have. If a cell fails, a sink loses messages of a destination that has this
//! fault, delivers them again or out of order against its promise, does not say what is wrong, or holds up the sink beside it.
//!
//! A test is named after its cell, such as `faults::table::http::resetting`. A cell that cannot happen is an ignored test that says why.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

mod bbq;
mod cell;
#[cfg(all(feature = "azure", feature = "gcs"))]
mod clouds;
mod destination;
mod exec;
mod http;
#[cfg(feature = "kafka")]
mod kafka;
mod long_batch;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "s3")]
mod objects;
mod otlp_grpc;
mod plain;
mod proxy;
mod together;

/// The columns of the table stand in each row, and in the same order: a cell that is left out does not compile.
macro_rules! table {
    ($($(#[$attribute:meta])* $row:ident by $start:path {
        slow: $slow:tt,
        narrow: $narrow:tt,
        hanging: $hanging:tt,
        resetting: $resetting:tt,
        refusing_all: $refusing_all:tt,
        refusing_one: $refusing_one:tt,
        too_large: $too_large:tt,
        wrong_credentials: $wrong_credentials:tt,
        away: $away:tt,
        copied: $copied:tt,
    })*) => {$(
        $(#[$attribute])*
        mod $row {
            table!(@ $row $start, slow, Slow, $slow);
            table!(@ $row $start, narrow, Narrow, $narrow);
            table!(@ $row $start, hanging, Hanging, $hanging);
            table!(@ $row $start, resetting, Resetting, $resetting);
            table!(@ $row $start, refusing_all, RefusingAll, $refusing_all);
            table!(@ $row $start, refusing_one, RefusingOne, $refusing_one);
            table!(@ $row $start, too_large, TooLarge, $too_large);
            table!(@ $row $start, wrong_credentials, WrongCredentials, $wrong_credentials);
            table!(@ $row $start, away, Away, $away);
            table!(@ $row $start, copied, Copied, $copied);
        }
    )*};
    (@ $row:ident $start:path, $name:ident, $fault:ident, runs) => {
        #[test]
        fn $name() {
            $crate::faults::cell::run($start, $crate::faults::destination::Fault::$fault);
        }
    };
    // For long, with the others that do.
    (@ $row:ident $start:path, $name:ident, $fault:ident, waits) => {
        #[test]
        fn $name() {
            $crate::faults::together::cell_of(stringify!($row), $crate::faults::destination::Fault::$fault);
        }
    };
    (@ $row:ident $start:path, $name:ident, $fault:ident, $why:literal) => {
        #[test]
        #[ignore = $why]
        fn $name() {}
    };
}

mod table {
    table! {
        file by crate::faults::plain::file {
            slow: runs,
            narrow: "a file has no connection",
            hanging: runs,
            resetting: "a file has no connection",
            refusing_all: runs,
            refusing_one: "a file takes all messages or none",
            too_large: runs,
            wrong_credentials: "a file wants none; a permission that is missing is an error like those of refusing_all",
            away: "a file is created again where it is missing",
            copied: runs,
        }
        pipe by crate::faults::plain::pipe_with_name {
            slow: runs,
            narrow: "a pipe has no connection; a reader that is slow: slow",
            hanging: runs,
            resetting: runs,
            refusing_all: "a pipe takes all that it has room for",
            refusing_one: "a pipe takes all that it has room for",
            too_large: runs,
            wrong_credentials: "a pipe wants none",
            away: "a reader that is away is one that has closed the pipe: resetting",
            copied: runs,
        }
        stdout by crate::faults::plain::stdout {
            slow: runs,
            narrow: "a pipe has no connection; a reader that is slow: slow",
            hanging: runs,
            resetting: "no other reader can open the standard output of a program that runs",
            refusing_all: "a pipe takes all that it has room for",
            refusing_one: "a pipe takes all that it has room for",
            too_large: runs,
            wrong_credentials: "standard output wants none",
            away: "no other reader can open the standard output of a program that runs",
            copied: runs,
        }
        bbq by crate::faults::bbq::bbq {
            slow: runs,
            narrow: runs,
            hanging: waits,
            resetting: runs,
            refusing_all: "a bbq server refuses a message for its size alone: too_large",
            refusing_one: "a bbq server refuses a message for its size alone: too_large",
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        http by crate::faults::http::http {
            slow: runs,
            narrow: runs,
            hanging: runs,
            resetting: runs,
            refusing_all: runs,
            refusing_one: runs,
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        otlp_http by crate::faults::http::otlp_http {
            slow: runs,
            narrow: runs,
            hanging: runs,
            resetting: runs,
            refusing_all: runs,
            refusing_one: runs,
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        otlp_grpc by crate::faults::otlp_grpc::otlp_grpc {
            slow: runs,
            narrow: runs,
            hanging: runs,
            resetting: runs,
            refusing_all: runs,
            refusing_one: runs,
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        exec by crate::faults::exec::exec {
            slow: runs,
            narrow: "a command has no connection; a command that is slow: slow",
            hanging: waits,
            resetting: runs,
            refusing_all: runs,
            refusing_one: runs,
            too_large: runs,
            wrong_credentials: "a command wants none; it runs as the user of the server",
            away: runs,
            copied: runs,
        }
        #[cfg(feature = "kafka")]
        kafka by crate::faults::kafka::kafka {
            slow: runs,
            narrow: runs,
            hanging: waits,
            resetting: waits,
            refusing_all: runs,
            refusing_one: runs,
            too_large: runs,
            wrong_credentials: runs,
            away: waits,
            copied: runs,
        }
        #[cfg(feature = "nats")]
        nats by crate::faults::nats::nats {
            slow: runs,
            narrow: runs,
            hanging: waits,
            resetting: runs,
            refusing_all: runs,
            refusing_one: "JetStream refuses a message for its size alone: too_large",
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        #[cfg(feature = "s3")]
        s3 by crate::faults::objects::s3 {
            slow: runs,
            narrow: waits,
            hanging: waits,
            resetting: runs,
            refusing_all: runs,
            refusing_one: "a server sees objects, and no messages",
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        #[cfg(all(feature = "azure", feature = "gcs"))]
        gs by crate::faults::clouds::gs {
            slow: runs,
            narrow: waits,
            hanging: waits,
            resetting: runs,
            refusing_all: runs,
            refusing_one: "a server sees objects, and no messages",
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        #[cfg(all(feature = "azure", feature = "gcs"))]
        az by crate::faults::clouds::az {
            slow: runs,
            narrow: waits,
            hanging: waits,
            resetting: runs,
            refusing_all: runs,
            refusing_one: "a server sees objects, and no messages",
            too_large: runs,
            wrong_credentials: runs,
            away: runs,
            copied: runs,
        }
        #[cfg(feature = "s3")]
        objects by crate::faults::objects::objects {
            slow: runs,
            narrow: "a directory has no connection",
            hanging: runs,
            resetting: "a directory has no connection",
            refusing_all: runs,
            refusing_one: "a directory takes all objects or none",
            too_large: runs,
            wrong_credentials: "a directory wants none; a permission that is missing is an error like those of refusing_all",
            away: "a directory is created again where it is missing",
            copied: runs,
        }
    }
}
