//! libbbq as bindings/c/install.sh installs it, for each format of packages.

use super::disk::text;
use super::material::Material;
use super::symbols;
use crate::step;

pub(super) fn stage(material: &Material) -> Result<(), String> {
    let stage = material.stage();
    let libraries = stage.join("libraries");
    super::disk::create(&libraries)?;
    let [shared, archive] = ["libbbq.so", "libbbq.a"].map(|name| text(&libraries.join(name)));
    symbols::strip(material, &step::built("libbbq.so")?, &shared)?;
    let built = step::built("libbbq.a")?;
    step::run(&[], "objcopy", &["--strip-debug", "--strip-unneeded", &built, &archive])?;
    for (format, libdir) in [("deb", material.machine.debian_libraries), ("rpm", "lib64")] {
        let destination = text(&stage.join(format));
        let from = text(&libraries);
        let arguments =
            ["bindings/c/install.sh", "--prefix", "/usr", "--libdir", libdir, "--libraries", &from];
        step::run(&[("DESTDIR", destination.as_str())], "sh", &arguments)?;
    }
    Ok(())
}
