//! `bbq reload`: asks the admin to read the configuration again, and says how that ended.

use std::io::Write as _;

use anyhow::bail;

use crate::arguments::ReloadArguments;
use crate::outcome::{Outcome, misuse};
use crate::question::ask_to_reload;
use crate::token;

pub(crate) fn run(arguments: &ReloadArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = token::read(arguments.server.token_file.as_deref()).map_err(misuse)?;
    let asked = ask_to_reload(arguments.server.admin, token.as_ref(), arguments.anyway);
    match runtime.block_on(asked)? {
        Ok(done) => {
            writeln!(std::io::stdout(), "{done}")?;
            Ok(Outcome::Done)
        }
        Err(why) => bail!("the server refused: {why}"),
    }
}
