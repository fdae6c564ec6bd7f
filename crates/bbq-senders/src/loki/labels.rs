//! The labels of a stream as Loki writes them: `{app="shop", level="info"}`, with the texts of Go.

use super::lines::PushError;

/// Labels of a stream: Loki takes 15 unless it is told otherwise.
const LABELS_MAX: usize = 1024;

/// Reads labels.
pub(super) fn read(text: &str) -> Result<Vec<(String, String)>, PushError> {
    parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(100).collect();
        PushError::of(format!("{shown:?} are no labels such as {{app=\"shop\"}}"))
    })
}

fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim().strip_prefix('{')?.trim_start();
    let mut labels = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return behind.trim().is_empty().then_some(labels);
        }
        let name = match quoted(&mut rest) {
            Some(name) => name,
            None => {
                let (name, behind) = rest.split_at(rest.find('=')?);
                rest = behind;
                name.trim_end().to_owned()
            }
        };
        rest = rest.trim_start().strip_prefix('=')?.trim_start();
        if name.is_empty() || name.contains(['{', '}', '"', ',']) || labels.len() == LABELS_MAX {
            return None;
        }
        labels.push((name, quoted(&mut rest)?));
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind.trim_start(),
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

/// Takes a text in quotes from the front, as Go writes it.
fn quoted(rest: &mut &str) -> Option<String> {
    if let Some(raw) = rest.strip_prefix('`') {
        let (text, behind) = raw.split_once('`')?;
        *rest = behind;
        return Some(text.replace('\r', ""));
    }
    let inner = rest.strip_prefix('"')?;
    let bytes = inner.as_bytes();
    let mut at = 0;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    *rest = inner.get(at + 1..)?;
    let text = &inner[..at];
    if text.contains('\\') { unquoted(text) } else { Some(text.to_owned()) }
}

/// A text without its escapes (go.dev/ref/spec, "Rune literals").
fn unquoted(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let kind = escape.chars().next()?;
        let behind = &escape[kind.len_utf8()..];
        let digits = |from: &'_ str, count: usize, radix| u32::from_str_radix(from.get(..count)?, radix).ok();
        rest = behind;
        let byte = match kind {
            'a' => 0x07,
            'b' => 0x08,
            'f' => 0x0c,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 0x0b,
            '\\' | '"' | '\'' => kind as u8,
            'x' => {
                rest = behind.get(2..)?;
                u8::try_from(digits(behind, 2, 16)?).ok()?
            }
            '0'..='7' => {
                rest = behind.get(2..)?;
                u8::try_from(digits(escape, 3, 8)?).ok()?
            }
            'u' | 'U' => {
                let count = if kind == 'u' { 4 } else { 8 };
                let character = char::from_u32(digits(behind, count, 16)?)?;
                rest = &behind[count..];
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
    out.extend_from_slice(rest.as_bytes());
    Some(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_loki_writes_them() {
        let read = |text: &str| {
            parse(text).map(|labels| labels.into_iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>())
        };
        let some = |labels: &[&str]| Some(labels.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>());
        for (text, expected) in [
            (r#"{app="shop", level="info"}"#, some(&["app=shop", "level=info"])),
            (r#" { app = "shop" ,level="a,b}=" , } "#, some(&["app=shop", "level=a,b}="])),
            ("{}", some(&[])),
            (r#"{a="\"\\\n\t\x41\101\u00e9\U0001F600"}"#, some(&["a=\"\\\n\tAA\u{e9}\u{1f600}"])),
            (r#"{a="\xff"}"#, some(&["a=\u{fffd}"])),
            ("{a=`raw \\n`}", some(&["a=raw \\n"])),
            (r#"{"a.b"="c"}"#, some(&["a.b=c"])),
            (r#"{a="b",a="c"}"#, some(&["a=b", "a=c"])),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for wrong in [
            "",
            "{",
            "a=\"b\"",
            "{a}",
            "{a=}",
            "{a=b}",
            r#"{a="b}"#,
            r#"{a="b"} x"#,
            r#"{a="b" c="d"}"#,
            r#"{="b"}"#,
            r#"{,}"#,
            r#"{a="\"}"#,
            r#"{a="\q"}"#,
            r#"{a="\x4"}"#,
            r#"{a="\ud800"}"#,
            r#"{a="\U0011ffff"}"#,
            r#"{a="\777"}"#,
            "{a=\"\\\u{e9}\"}",
            "{a=\"\\x\u{e9}\"}",
            "{a=\"\\u\u{e9}\u{e9}\"}",
            "{a=`b}",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let many = format!("{{{}}}", r#"a="","#.repeat(LABELS_MAX + 1));
        assert_eq!(read(&many), None);
    }
}
