//! Configuration of a simulation that no SPEC can express.

use std::path::Path;
use std::sync::Arc;

use bbq_format::Format;
use bbq_sink::SinkSpec;

use super::rotation::Rotation;
use super::target::{FILE, FileTarget};

/// A file sink of any name, rotated at any size.
pub fn simulated_file(name: &str, path: &Path, rotation: Rotation) -> SinkSpec {
    let target = FileTarget { path: path.to_owned(), format: Format::Json, rotation };
    SinkSpec::of_target(name, &FILE, Arc::new(target))
}
