//! `bbq listen-setup`: the one step that needs a privilege, before servers without privilege steer by a program in the kernel.

use anyhow::{Context as _, anyhow};
use bbq_listen::{SteeringSetup, UnixOwner};

use crate::arguments::ListenSetupArguments;
use crate::outcome::{Outcome, misuse};

pub(crate) fn run(arguments: &ListenSetupArguments) -> anyhow::Result<Outcome> {
    let pins = arguments.pins.display();
    let setup = SteeringSetup::new(&arguments.pins, arguments.programs);
    if arguments.remove {
        setup.remove()?;
        println!("removed {pins}");
        return Ok(Outcome::Done);
    }
    let user = number_of("--user", arguments.user.as_deref(), UnixOwner::user_named)?;
    let group = number_of("--group", arguments.group.as_deref(), UnixOwner::group_named)?;
    match setup.owner(UnixOwner { user, group }).install() {
        Ok(()) => {
            println!("{} programs are pinned in {pins}", arguments.programs);
            Ok(Outcome::Done)
        }
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Err(misuse(anyhow!(error).context("--programs")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The number of a user or group, whose name may be a number.
fn number_of(
    option: &str,
    name: Option<&str>,
    look_up: impl Fn(&str) -> std::io::Result<Option<u32>>,
) -> anyhow::Result<Option<u32>> {
    let Some(name) = name else { return Ok(None) };
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    let found = look_up(name).with_context(|| format!("{option} {name}"))?;
    let number = found.ok_or_else(|| misuse(anyhow!("{option}: this system has no {name:?}")))?;
    Ok(Some(number))
}
