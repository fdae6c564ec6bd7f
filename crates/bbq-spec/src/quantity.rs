//! Sizes as people write them.

/// Reads `1048576`, `1MiB`, `64KiB`, `10GB` or `10G`: KB, MB, GB and TB are powers of 1000. KiB, MiB, GiB, TiB,
/// PiB and the single letters K, M, G, T, P are powers of 1024.
///
/// # Errors
/// Says what is wrong and what to write.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "p" | "pib" => 1 << 50,
        _ => {
            return Err(format!(
                "{text:?} is not a size; write a number of bytes, or a number with KiB, MiB, GiB, KB, MB or GB"
            ));
        }
    };
    let number: u64 =
        number.parse().map_err(|_| format!("{text:?} is not a size; write a number such as 64MiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is over 64 bits"))
}

/// The size as a text that [`parse_bytes`] reads, in the largest unit that needs no fraction.
pub fn with_unit(bytes: u64) -> String {
    let units = [(50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(bits, _)| bytes != 0 && bytes.trailing_zeros() >= *bits);
    unit.map_or_else(|| bytes.to_string(), |(bits, unit)| format!("{}{unit}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::{parse_bytes, with_unit};

    #[test]
    fn a_size_is_shown_as_it_can_be_read() {
        for (bytes, shown) in
            [(0, "0"), (1023, "1023"), (3 << 10, "3KiB"), (1 << 40, "1TiB"), (1 << 51, "2PiB")]
        {
            assert_eq!(with_unit(bytes), shown);
            assert_eq!(parse_bytes(shown), Ok(bytes));
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        assert_eq!(parse_bytes("1048576"), Ok(1 << 20));
        assert_eq!(parse_bytes("1MiB"), Ok(1 << 20));
        assert_eq!(parse_bytes(" 10 GB "), Ok(10_000_000_000));
        assert_eq!(parse_bytes("64k"), Ok(65_536));
        for wrong in ["", "MiB", "1.5GiB", "-1", "1 parsec", "99999999999999999999", "20000000T"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
