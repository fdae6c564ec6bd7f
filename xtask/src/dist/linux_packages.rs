//! Packages for Debian and Fedora, by nfpm from packaging/nfpm.

use std::path::Path;
use std::process::Command;

use super::disk::{text, text_of, write};
use super::material::Material;
use super::shlibs;
use crate::{go, step};

/// Both formats from one description, without the tools of either distribution.
const NFPM: &str = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2";
const PACKAGES: [&str; 4] = [PROGRAM, LIBRARY, "libbbq-dev", "bbq-dbgsym"];
const PROGRAM: &str = "bbq";
/// The number is that of the soname (bindings/c/build.rs).
const LIBRARY: &str = "libbbq0";
/// Debian wants a name and an address; this one tells that there is none.
const MAINTAINER: &str = "the bbq authors <bbq@localhost>";
/// Shared libraries that programs may need, and Debian's packages of them. RPM names the libraries themselves.
const LIBRARIES: [(&str, &str); 7] = [
    ("ld-linux", ""),
    ("libc.so.6", ""),
    ("libcrypto.so.3", "libssl3"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libm.so.6", ""),
    ("libssl.so.3", "libssl3"),
    ("libz.so.1", "zlib1g"),
];
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

/// What to make of the descriptions in packaging/nfpm.
struct Order<'a> {
    packages: &'static [&'static str],
    version: &'a str,
    directory: &'a Path,
    /// Of Debian's packages, in nfpm's words.
    compression: &'static str,
}

/// All packages, as they are released.
pub(super) fn make(material: &Material) -> Result<(), String> {
    let (version, directory) = (material.version.as_str(), material.directory());
    make_ordered(material, &Order { packages: &PACKAGES, version, directory, compression: "xz" })
}

/// The packages of the program, for the test of their installation. They differ from those of a release in their compression, which takes
/// seconds less, and in `version`.
pub(super) fn make_to_install(material: &Material, version: &str, directory: &Path) -> Result<(), String> {
    make_ordered(material, &Order { packages: &[PROGRAM], version, directory, compression: "zstd" })
}

fn make_ordered(material: &Material, order: &Order<'_>) -> Result<(), String> {
    let nfpm = nfpm(material)?;
    documents(material, order.version)?;
    let stage = material.stage();
    // Packages take the modes from here.
    step::run(&[], "chmod", &["--recursive", "u=rwX,go=rX", &text(stage)])?;
    for name in order.packages {
        let template = text_of(&material.root.join("packaging/nfpm").join(format!("{name}.yaml")))?;
        let needs = Needs::of(&stage.join(if *name == PROGRAM { "bbq" } else { "libraries/libbbq.so" }))?;
        for (format, libdir) in [("deb", material.machine.debian_libraries), ("rpm", "lib64")] {
            let development = if format == "deb" { "libbbq-dev" } else { "libbbq-devel" };
            let filled = [
                ("@ARCH@", material.machine.debian),
                ("@VERSION@", order.version),
                ("@BUILT@", &material.version),
                ("@COMPRESSION@", order.compression),
                ("@MAINTAINER@", MAINTAINER),
                ("@STAGE@", &text(stage)),
                ("@FORMAT@", format),
                ("@LIBDIR@", libdir),
                ("@DEVELOPMENT@", development),
                ("@NEEDS@", &needs.listed(format)),
            ]
            .into_iter()
            .fold(template.clone(), |text, (word, value)| text.replace(word, value));
            let description = stage.join(format!("{name}.{format}.yaml"));
            write(&description, &filled)?;
            let arguments = ["package", "--config", &text(&description), "--packager", format, "--target"];
            let time = [("SOURCE_DATE_EPOCH", material.time.as_str())];
            step::run(&time, &nfpm, &[&arguments[..], &[&text(order.directory)]].concat())?;
        }
        if *name == LIBRARY {
            let file = format!("{name}_{}-1_{}.deb", order.version, material.machine.debian);
            shlibs::add(material, name, &order.directory.join(file))?;
        }
    }
    Ok(())
}

fn nfpm(material: &Material) -> Result<String, String> {
    let tools = material.tools();
    let program = tools.join("nfpm");
    go::provide(&material.root)?;
    let go = go::program(&material.root).ok_or("there is no Go, by which nfpm is built")?;
    // Builds nothing when it is there.
    let place = text(&tools);
    let variables = [("GOBIN", place.as_str()), ("GOWORK", "off"), ("GOFLAGS", "-trimpath")];
    step::run(&variables, &go.to_string_lossy(), &["install", NFPM]).map_err(|problem| {
        format!("{problem}\npackages need {NFPM}: make sure that Go reaches a module proxy (GOPROXY)")
    })?;
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
    step::run(&[], "sh", &["-c", gzip, &text(stage)])
}

/// What a program needs to run.
struct Needs {
    /// The newest version of glibc that a symbol asks for.
    glibc: (u32, u32),
    libraries: Vec<String>,
}

impl Needs {
    fn of(program: &Path) -> Result<Needs, String> {
        let headers = Command::new("objdump").arg("--private-headers").arg(program).output();
        let headers = headers.map_err(|error| format!("cannot run objdump: {error}"))?;
        let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
        let needed = headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED"));
        let libraries: Vec<String> = needed.map(|name| name.trim().to_owned()).collect();
        let is_known = |name: &String| LIBRARIES.iter().any(|(known, _)| name.starts_with(known));
        if let Some(stranger) = libraries.iter().find(|name| !is_known(name)) {
            return Err(format!(
                "{} needs {stranger}, and no package is known that has it",
                program.display()
            ));
        }
        let versions =
            headers.split_whitespace().filter_map(|word| version(word.strip_prefix("GLIBC_")?)).max();
        let glibc = versions.ok_or_else(|| format!("{} needs no version of glibc", program.display()))?;
        Ok(Needs { glibc, libraries })
    }

    /// The entries of a list in YAML.
    fn listed(&self, format: &str) -> String {
        let (major, minor) = self.glibc;
        let mut entries = match format {
            "deb" => LIBRARIES
                .iter()
                .filter(|(known, package)| {
                    !package.is_empty() && self.libraries.iter().any(|name| name == known)
                })
                .map(|(_, package)| format!("\"{package}\""))
                .chain([format!("\"libc6 (>= {major}.{minor})\"")])
                .collect::<Vec<_>>(),
            _ => self
                .libraries
                .iter()
                .filter(|name| !name.starts_with("ld-linux"))
                .map(|name| format!("\"{name}()(64bit)\""))
                .chain([format!("\"libc.so.6(GLIBC_{major}.{minor})(64bit)\"")])
                .collect(),
        };
        entries.sort_unstable();
        entries.dedup();
        entries.join(", ")
    }
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
