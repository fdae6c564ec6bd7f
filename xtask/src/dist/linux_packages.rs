//! Packages for Debian and Fedora, by nfpm from packaging/nfpm.

use std::path::Path;
use std::process::Command;

use super::material::Material;
use super::{create, text, text_of, write};
use crate::{go, step};

/// Both formats from one description, without the tools of either distribution.
const NFPM: &str = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2";
const PACKAGES: [&str; 4] = ["bbq", "libbbq0", "libbbq-dev", "bbq-dbgsym"];
/// Debian wants a name and an address; this one tells that there is none.
const MAINTAINER: &str = "the bbq authors <bbq@localhost>";
/// Shared libraries of the programs that every system has. A package that needs another one would have to say so.
const LIBRARIES: [&str; 4] = ["libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux"];
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: bbq

Files: *
Copyright: the bbq authors
License: MIT or Apache-2.0

License: MIT
";
const APACHE: &str = "
License: Apache-2.0
 On Debian systems, the full text of the Apache License version 2.0 is in /usr/share/common-licenses/Apache-2.0.
";

pub(super) fn make(material: &Material, version: &str) -> Result<(), String> {
    make_into(material, version, material.directory())
}

pub(super) fn make_into(material: &Material, version: &str, directory: &Path) -> Result<(), String> {
    let nfpm = nfpm(material)?;
    create(directory)?;
    documents(material, version)?;
    let glibc = needed_glibc(material)?;
    let stage = material.stage();
    for name in PACKAGES {
        let template = text_of(&material.root.join("packaging/nfpm").join(format!("{name}.yaml")))?;
        for (format, libdir) in [("deb", material.machine.debian_libraries), ("rpm", "lib64")] {
            let development = if format == "deb" { "libbbq-dev" } else { "libbbq-devel" };
            let filled = [
                ("@ARCH@", material.machine.debian),
                ("@VERSION@", version),
                ("@BUILT@", &material.version),
                ("@MAINTAINER@", MAINTAINER),
                ("@STAGE@", &text(&stage)),
                ("@FORMAT@", format),
                ("@LIBDIR@", libdir),
                ("@DEVELOPMENT@", development),
                ("@GLIBC@", &glibc),
                ("@BITS@", "(64bit)"),
            ]
            .into_iter()
            .fold(template.clone(), |text, (word, value)| text.replace(word, value));
            let description = stage.join(format!("{name}.{format}.yaml"));
            write(&description, &filled)?;
            let arguments = ["package", "--config", &text(&description), "--packager", format, "--target"];
            let time = [("SOURCE_DATE_EPOCH", material.time.as_str())];
            step::run(&time, &nfpm, &[&arguments[..], &[&text(directory)]].concat())?;
        }
    }
    Ok(())
}

fn nfpm(material: &Material) -> Result<String, String> {
    let tools = material.tools();
    let program = tools.join("nfpm");
    let go = go::program(&material.root).ok_or("there is no Go, by which nfpm is built")?;
    // Builds nothing when it is there.
    let place = text(&tools);
    let variables = [("GOBIN", place.as_str()), ("GOWORK", "off"), ("GOFLAGS", "-trimpath")];
    step::run(&variables, &go.to_string_lossy(), &["install", NFPM])?;
    Ok(text(&program))
}

fn documents(material: &Material, version: &str) -> Result<(), String> {
    let stage = material.stage();
    let license = text_of(&material.root.join("LICENSE-MIT"))?;
    let license: String =
        license.lines().map(|line| format!(" {}\n", if line.is_empty() { "." } else { line })).collect();
    write(&stage.join("copyright"), &format!("{COPYRIGHT}{license}{APACHE}"))?;
    write(&stage.join("changelog"), &text_of(&material.root.join("CHANGELOG.md"))?)?;
    let date =
        Command::new("date").args(["--utc", "--rfc-email", &format!("--date=@{}", material.time)]).output();
    let date = date.map_err(|error| format!("cannot run date: {error}"))?;
    let date = String::from_utf8_lossy(&date.stdout);
    for name in PACKAGES {
        let entry = format!(
            "{name} ({version}-1) unstable; urgency=medium\n\n  * What has changed is in the changelog of bbq.\n\n -- {MAINTAINER}  {date}"
        );
        write(&stage.join(format!("{name}.changelog.Debian")), &entry)?;
    }
    let gzip = "cd \"$0\" && gzip --best --no-name --force changelog *.changelog.Debian";
    step::run(&[], "sh", &["-c", gzip, &text(&stage)])
}

/// The newest version of glibc that a symbol of the program or of the library asks for.
fn needed_glibc(material: &Material) -> Result<String, String> {
    let stage = material.stage();
    let mut newest = Vec::new();
    for program in [stage.join("bbq"), stage.join("libraries/libbbq.so")] {
        let headers = Command::new("objdump").arg("--private-headers").arg(&program).output();
        let headers = headers.map_err(|error| format!("cannot run objdump: {error}"))?;
        let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
        let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
        let stranger =
            needed.map(str::trim).find(|name| !LIBRARIES.iter().any(|known| name.starts_with(known)));
        if let Some(stranger) = stranger {
            return Err(format!(
                "{} needs {stranger}, which the packages do not depend on",
                program.display()
            ));
        }
        newest.extend(headers.split_whitespace().filter_map(|word| version(word.strip_prefix("GLIBC_")?)));
    }
    let (major, minor) = newest.into_iter().max().ok_or("no version of glibc is needed")?;
    Ok(format!("{major}.{minor}"))
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("2.34") > version("2.2.5"));
        assert_eq!(version("PRIVATE"), None);
    }
}
