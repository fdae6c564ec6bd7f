//! A configuration file with every key and its default, each in a comment.

use bbq_spec::Values;

use crate::keys::{DATA, FILE_KEYS, FileKey, NO_SPECS, file_key};

/// The text of the file. The server reads this file as the defaults, even after the `#` of a line `#KEY = VALUE` is removed.
#[must_use]
pub fn default_file() -> String {
    let mut text =
        String::from("# Configuration of `bbq serve`. To set a key, remove the # in front of it.\n");
    let mut table = None;
    for known in &FILE_KEYS {
        let option = &known.option;
        let (within, key) =
            option.key.rsplit_once('.').map_or((None, option.key), |(table, key)| (Some(table), key));
        if within != table {
            table = within;
            text.push_str(&format!("\n[{}]\n", within.unwrap_or_default()));
        }
        text.push_str(&format!("\n# {key}: {}.\n# Values: {}", option.meaning, option.values));
        match value(known) {
            Some(value) => text.push_str(&format!("\n#{key} = {value}\n")),
            None => text.push_str(&format!(". Default: {}\n", option.default)),
        }
    }
    text
}

/// The default in TOML; `None` if the default is a description of the value.
fn value(known: &FileKey) -> Option<String> {
    let option = &known.option;
    match option.values {
        Values::Specs(_) => {
            let data = file_key("data").map_or("", |data| data.option.default);
            let specs = option.default.split(", ").filter(|spec| *spec != NO_SPECS);
            let specs = specs.map(|spec| format!("{:?}", spec.replace(DATA, data)));
            Some(format!("[{}]", specs.collect::<Vec<_>>().join(", ")))
        }
        Values::Words(_) | Values::Text { .. } => Some(format!("{:?}", option.default)),
        _ => {
            let number = option.values.number(option.default).ok()?;
            Some(if option.default == number.to_string() {
                number.to_string()
            } else {
                format!("{:?}", option.default)
            })
        }
    }
}
