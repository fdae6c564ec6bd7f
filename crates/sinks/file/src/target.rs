//! Files and standard output as destinations: `file:PATH` and `stdout:`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_format::{Format, Formatter};
use bbq_sink::{Again, FORMAT_WORDS, Kind, Now, OpenError, Sink, Surplus, Target, format_option};
use bbq_spec::{ConfigError, Query, SpecOption, Values};
use bbq_storage::{NodeKind, Storage};

use super::TextSink;
use super::file::FileOutput;
use super::output::{Output, open_error};
use super::rotation::Rotation;
use super::stream::{StreamOutput, open_stream};
use super::surplus;

/// `file:PATH`
pub static FILE: Kind = Kind {
    word: "file",
    argument: "PATH",
    summary: "appends to a file, a pipe or a device",
    options: &[&[
        format_option("raw"),
        SpecOption {
            key: "rotate_bytes",
            values: Values::Size(4096..=1 << 50),
            default: "never",
            meaning: "the size limit of the file, which is set aside before a message that would exceed it; a larger message gets its own file",
        },
        SpecOption {
            key: "rotate",
            values: Values::Words(&["daily", "never"]),
            default: "never",
            meaning: "sets the file aside when the day changes (UTC)",
        },
        SpecOption {
            key: "keep",
            values: Values::Number(1..=u32::MAX as u64),
            default: "all",
            meaning: "how many files that were set aside are kept; requires rotate or rotate_bytes",
        },
    ]],
    is_exclusive: true,
    parse: |path, query| {
        let format = take_format(query)?;
        let rotation = Rotation {
            bytes: query.take_number("rotate_bytes")?,
            daily: query.take_word("rotate", &[("daily", true), ("never", false)])?.unwrap_or_default(),
            keep: query.take_number("keep")?.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        };
        if rotation.keep.is_some() && !rotation.is_on() {
            return Err(ConfigError::new(format!(
                "file:{path}: keep has no meaning without rotate or rotate_bytes"
            )));
        }
        Ok(Arc::new(FileTarget { path: path.into(), format, rotation }))
    },
};

/// `stdout:`
pub static STDOUT: Kind = Kind {
    word: "stdout",
    argument: "",
    summary: "writes to standard output",
    options: &[&[format_option("raw")]],
    is_exclusive: true,
    parse: |_, query| Ok(Arc::new(StdoutTarget { format: take_format(query)? })),
};

fn take_format(query: &mut Query<'_>) -> Result<Format, ConfigError> {
    Ok(query.take_word("format", &FORMAT_WORDS)?.unwrap_or_default())
}

#[derive(Debug)]
struct StdoutTarget {
    format: Format,
}

#[derive(Debug)]
pub(crate) struct FileTarget {
    pub path: PathBuf,
    pub format: Format,
    pub rotation: Rotation,
}

impl Target for StdoutTarget {
    fn open(&self, _: &Arc<dyn Storage>, _: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let output = StreamOutput::stdout().map_err(OpenError::Refused)?;
        Ok(Box::new(TextSink::new(Box::new(output), Formatter::new(self.format))))
    }
}

impl Target for FileTarget {
    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn keep_surplus(
        &self,
        storage: &dyn Storage,
        state: &str,
        again: &mut Again<'_>,
    ) -> io::Result<Option<Surplus>> {
        surplus::keep(storage, &self.path, state, &mut |bytes_max, emit| again(self.format, bytes_max, emit))
    }

    /// A pipe or a device needs none, and a file that exists only if it is set aside.
    fn directory(&self) -> Option<&Path> {
        let makes_files = !self.path.exists() || (self.path.is_file() && self.rotation.is_on());
        self.path.parent().filter(|_| makes_files)
    }

    fn open(
        &self,
        storage: &Arc<dyn Storage>,
        state: Option<&str>,
        now: Now,
    ) -> Result<Box<dyn Sink>, OpenError> {
        let output: Box<dyn Output> = match storage.kind(&self.path) {
            Ok(NodeKind::Other) => open_stream(&self.path)?,
            _ => {
                let file = FileOutput::open(storage, &self.path, self.rotation, state, now.wall);
                Box::new(file.map_err(open_error)?)
            }
        };
        Ok(Box::new(TextSink::new(output, Formatter::new(self.format))))
    }
}
