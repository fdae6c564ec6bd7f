//! The words of an expression, with their places.
//!
//! Source of the grammar: github.com/google/cel-spec, doc/langdef.md, "Syntax".

use super::mistake::Mistake;

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Int(u64),
    Uint(u64),
    Double(f64),
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "?", ":", "(", ")", "[", "]", "{", "}", ".", ",", "+",
    "-", "*", "/", "%",
];

/// Cuts a text into words, each with the byte at which it begins. The last one is the end.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Mistake> {
    let mut cutter = Cutter { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        cutter.skip_blanks();
        let from = cutter.at;
        let token = cutter.token()?;
        let is_end = token == Token::End;
        tokens.push((token, from));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cutter<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, problem: impl Into<String>) -> Mistake {
        Mistake { at: self.at, problem: problem.into() }
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let start = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - start.len();
            if !start.starts_with("//") {
                return;
            }
            self.at += start.find('\n').unwrap_or(start.len());
        }
    }

    fn token(&mut self) -> Result<Token, Mistake> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if let Some(text) = self.text_literal()? {
            return Ok(Token::Text(text));
        }
        if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return self.number();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.at += end;
            return Ok(Token::Name(rest[..end].to_owned()));
        }
        match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(Token::Sign(sign))
            }
            None if first == '=' => Err(self.wrong("\"=\" is no operator; write ==")),
            None if first == '&' => Err(self.wrong("\"&\" is no operator; write &&")),
            None if first == '|' => Err(self.wrong("\"|\" is no operator; write ||")),
            None => Err(self.wrong(format!("{first:?} is no part of an expression"))),
        }
    }

    fn number(&mut self) -> Result<Token, Mistake> {
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            return self.integer(2 + end, u64::from_str_radix(&hex[..end], 16).ok());
        }
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(rest);
        let whole = end;
        if let Some(behind) = rest[end..].strip_prefix('.')
            && behind.starts_with(|c: char| c.is_ascii_digit())
        {
            end += 1 + digits(behind);
        }
        if let Some(behind) = rest[end..].strip_prefix(['e', 'E']) {
            let sign = usize::from(behind.starts_with(['+', '-']));
            let exponent = digits(&behind[sign..]);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        if end == whole {
            return self.integer(end, rest[..end].parse().ok());
        }
        let number = rest[..end].parse().map_err(|_| self.wrong("this is not a number"))?;
        self.end_of_number(end)?;
        Ok(Token::Double(number))
    }

    /// An integer of so many bytes, perhaps with the `u` of one without a sign.
    fn integer(&mut self, bytes: usize, number: Option<u64>) -> Result<Token, Mistake> {
        let number = number.ok_or_else(|| self.wrong("this integer does not fit into 64 bits"))?;
        let is_unsigned = self.rest()[bytes..].starts_with(['u', 'U']);
        self.end_of_number(bytes + usize::from(is_unsigned))?;
        Ok(if is_unsigned { Token::Uint(number) } else { Token::Int(number) })
    }

    fn end_of_number(&mut self, bytes: usize) -> Result<(), Mistake> {
        if self.rest()[bytes..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Err(self.wrong("this is not a number"));
        }
        self.at += bytes;
        Ok(())
    }

    /// A text in quotes, if there is one.
    fn text_literal(&mut self) -> Result<Option<String>, Mistake> {
        let rest = self.rest();
        let prefix = rest.find(['"', '\'']).filter(|quote| *quote <= 2).map(|quote| &rest[..quote]);
        let is_raw = match prefix {
            Some("") => false,
            Some("r" | "R") => true,
            Some("b" | "B" | "br" | "bR" | "Br" | "BR" | "rb" | "rB" | "Rb" | "RB") => {
                return Err(self.wrong("literals of bytes are not supported; write a text without the b"));
            }
            _ => return Ok(None),
        };
        let start = usize::from(is_raw);
        let body = &rest[start..];
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let Some(quote) = quotes.into_iter().find(|quote| body.starts_with(quote)) else { return Ok(None) };
        let mut inner = Inner { rest: &body[quote.len()..], text: String::new() };
        while !inner.rest.starts_with(quote) {
            let c = inner.rest.chars().next().filter(|c| quote.len() == 3 || !matches!(c, '\n' | '\r'));
            let Some(c) = c else {
                return Err(self.wrong(format!("the text has no end; write {quote} behind it")));
            };
            inner.rest = &inner.rest[c.len_utf8()..];
            if c == '\\' && !is_raw {
                inner.escape().ok_or_else(|| Mistake {
                    at: self.text.len() - inner.rest.len() - 1,
                    problem:
                        "this is not an escape of CEL; write \\\\ for a backslash, or r in front of the text"
                            .to_owned(),
                })?;
            } else {
                inner.text.push(c);
            }
        }
        self.at = self.text.len() - inner.rest.len() + quote.len();
        Ok(Some(inner.text))
    }
}

/// Of a text in quotes, what comes, and what came.
struct Inner<'a> {
    rest: &'a str,
    text: String,
}

impl Inner<'_> {
    /// Takes what stands behind a backslash.
    fn escape(&mut self) -> Option<()> {
        let c = self.rest.chars().next()?;
        let (digits, radix) = match c {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (3, 8),
            _ => {
                self.text.push(simple(c)?);
                self.rest = &self.rest[c.len_utf8()..];
                return Some(());
            }
        };
        let start = usize::from(radix == 16);
        let code = self.rest.get(start..start + digits)?;
        if !code.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.text.push(char::from_u32(u32::from_str_radix(code, radix).ok()?)?);
        self.rest = &self.rest[start + digits..];
        Some(())
    }
}

fn simple(c: char) -> Option<char> {
    Some(match c {
        '\\' | '"' | '\'' | '`' | '?' => c,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        _ => return None,
    })
}
