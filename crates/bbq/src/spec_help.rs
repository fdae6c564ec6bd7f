//! The help on SPECs in `bbq serve --help` and in its manual, made from the lists that the server uses to read SPECs.

use std::fmt::Write as _;

use bbq_server::SINK_KINDS;
use bbq_server::config::{NAME_OPTION, PROTOCOLS, Protocol, SpecOption, listen_options, read_options};

const EXAMPLES: &str = "\
Examples:
  bbq serve
  bbq serve --listen syslog+udp://0.0.0.0:514 --sink file:/var/log/all.log
  bbq serve --read 'file:/var/log/nginx/*.log' --sink file:/var/log/all.log
  bbq serve --sink 'file:/var/log/all.log?format=json&rotate=daily'
  bbq config default > bbq.toml && bbq serve --config bbq.toml";

/// The syntax.
pub(crate) fn short() -> String {
    const KEYS: &str = "Keys: `bbq config explain listen`, `bbq config explain read`, and of a sink such as file: `bbq config explain sink.file`\n";
    help(|_| String::new(), KEYS)
}

/// The syntax, and the meaning of each key: for the manual.
pub(crate) fn long() -> String {
    let meanings = |keys: &[&SpecOption]| -> String {
        let line = |option: &&SpecOption| {
            let SpecOption { values, default, meaning, .. } = option;
            let words = option.words().join(" or ");
            format!("      {words}: {values} [default: {default}]\n          {meaning}\n")
        };
        keys.iter().map(line).collect()
    };
    help(meanings, "")
}

/// `keys` tells those of listeners and of each sink; `notes` stand behind all.
fn help(keys: impl Fn(&[&SpecOption]) -> String, notes: &str) -> String {
    let mut text = String::from(
        "A listen SPEC is PROTOCOL+TRANSPORT://ADDRESS[?key=value&...]\n  TRANSPORT: tcp, udp, unix, unixgram\n  PROTOCOL:\n",
    );
    for Protocol { word, summary, .. } in PROTOCOLS {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "    {word:<8}{summary}");
    }
    let push = |text: &mut String, options: &mut dyn Iterator<Item = &'static SpecOption>| {
        text.push_str(&keys(&std::iter::once(&NAME_OPTION).chain(options).collect::<Vec<_>>()));
    };
    push(&mut text, &mut listen_options());
    text.push_str("A read SPEC is file:GLOB[?key=value&...], such as file:/var/log/nginx/*.log, containers:[DIR][?key=value&...] or journal:[?key=value&...]\n");
    push(&mut text, &mut read_options());
    text.push_str("A sink SPEC is KIND:[ARGUMENT][?key=value&...]\n");
    for kind in SINK_KINDS {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "  {}:{} {}", kind.word, kind.argument, kind.summary);
        push(&mut text, &mut kind.each_option());
    }
    text + notes + "\n" + EXAMPLES
}
