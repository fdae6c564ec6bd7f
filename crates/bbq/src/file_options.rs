//! The options of `bbq serve` that are keys of the configuration file, too. They are made from the list of these keys.

use crate::suggested::Suggested;
use bbq_server::Overrides;
use bbq_server::config::{FILE_KEYS, FileKey, Values, variable_of};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The options that were given.
pub(crate) struct FileOptions(pub(crate) Overrides);

impl Args for FileOptions {
    fn augment_args(command: Command) -> Command {
        command.args(FILE_KEYS.iter().filter_map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        FileOptions::augment_args(command)
    }
}

impl FromArgMatches for FileOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FileOptions, Error> {
        let options = FILE_KEYS.iter().filter(|known| known.argument.is_some()).map(|known| known.option.key);
        let given = |key| Some((key, matches.get_many::<String>(key)?.cloned().collect()));
        Ok(FileOptions(options.filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = FileOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(known: &FileKey) -> Option<Arg> {
    let option = &known.option;
    let (action, values) = match &option.values {
        Values::Specs(_) => (ArgAction::Append, String::new()),
        values => (ArgAction::Set, format!(" [values: {values}]")),
    };
    let variable = variable_of(option.key);
    let mut help = format!("{}{values} [default: {}] [env: {variable}]", option.meaning, option.default);
    if let Some(first) = help.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let argument =
        Arg::new(option.key).long(option.key).value_name(known.argument?).action(action).help(help);
    let words: Vec<&str> = match &option.values {
        Values::Words(words) => words.to_vec(),
        // Its form is a list of words.
        Values::Text { form, .. } if option.key == "distribution" => form.split(", ").collect(),
        _ => Vec::new(),
    };
    Some(if words.is_empty() {
        argument
    } else {
        argument.value_parser(Suggested::new(words)).hide_possible_values(true)
    })
}
