//! `bbq reload`: asks the admin to read the configuration again, and says how that ended.

use std::io::Write as _;

use anyhow::bail;

use crate::arguments::ReloadArguments;
use crate::outcome::{Outcome, misuse};
use crate::question::ask_to_change;
use crate::token;

pub(crate) fn run(arguments: &ReloadArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = token::read(arguments.server.token_file.as_deref()).map_err(misuse)?;
    let path = if arguments.anyway { "/reload?anyway" } else { "/reload" };
    let asked = ask_to_change(arguments.server.admin, token.as_ref(), path, "send SIGHUP to the server");
    match runtime.block_on(asked)? {
        Ok(done) => {
            writeln!(std::io::stdout(), "{done}")?;
            Ok(Outcome::Done)
        }
        Err(why) => bail!("the server refused: {why}"),
    }
}
