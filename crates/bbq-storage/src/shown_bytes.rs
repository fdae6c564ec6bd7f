//! Sizes as people read them.

use std::fmt;

const STEP: f64 = 1024.0;
const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A number of bytes, displayed as `bbq status` shows it: `512 B`, `1.50 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownBytes(pub u64);

impl fmt::Display for ShownBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        if value < STEP {
            return write!(f, "{} B", self.0);
        }
        let mut shown = "";
        for unit in UNITS {
            if value < STEP {
                break;
            }
            (value, shown) = (value / STEP, unit);
        }
        write!(f, "{value:.2} {shown}")
    }
}

#[cfg(test)]
mod tests {
    use super::ShownBytes;

    #[test]
    fn the_largest_unit_that_is_not_below_one_is_shown() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (58_716_160, "56.00 MiB"),
            (3 << 29, "1.50 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(ShownBytes(bytes).to_string(), shown);
        }
    }
}
