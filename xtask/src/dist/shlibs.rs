//! The file `shlibs` of Debian's package of libbbq: by it, `dpkg-shlibdeps` gives a program that was linked with the library the dependency
//! on its package. nfpm has no place for it, so it is added to the finished package.

use std::path::Path;

use super::disk::{empty, text, write};
use super::material::Material;
use crate::step;

/// Writes the part of the package with the files for dpkg anew, and shows the added file as it is in the package. The times are given, so
/// that the same commit gives the same package.
const ADD: &str = r#"cd "$0" && ar x "$1" control.tar.gz && gzip --decompress control.tar.gz \
    && tar --append --file control.tar --format=gnu --owner=0 --group=0 --numeric-owner --mode=644 --mtime="@$2" ./shlibs \
    && gzip --best --no-name control.tar && ar rD "$1" control.tar.gz \
    && ar p "$1" control.tar.gz | tar --extract --gzip --to-stdout ./shlibs"#;

/// Adds the file to a package. `package` is the name of the package, and the library has the number of its soname.
pub(super) fn add(material: &Material, package: &str, file: &Path) -> Result<(), String> {
    let work = material.beside("shlibs");
    empty(&work)?;
    write(&work.join("shlibs"), &line(package, &material.version)?)?;
    step::run(&[], "sh", &["-c", ADD, &text(&work), &text(file), &material.time])
}

/// `library number dependency`. A program may use functions that came with this version, so it needs this version or a newer one.
fn line(package: &str, version: &str) -> Result<String, String> {
    let library = package.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let number = &package[library.len()..];
    if number.is_empty() {
        return Err(format!("{package} has no number of a soname at its end"));
    }
    Ok(format!("{library} {number} {package} (>= {version})\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_depends_on_the_package_and_the_version() {
        assert_eq!(line("libbbq0", "0.1.0").unwrap(), "libbbq 0 libbbq0 (>= 0.1.0)\n");
        assert!(line("libbbq", "0.1.0").is_err());
    }
}
