//! Fetches GraphiQL by npm from `web/package-lock.json`, checks it, and leaves it gzipped for
//! `src/transport/graphiql.rs` to embed. A build without npm works; the page then says what is missing.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

/// What decides over the fetched files, from `web/`.
const INPUTS: [&str; 4] = [
    "package.json",
    "package-lock.json",
    ".npmrc",
    "checksums.txt",
];
/// Files of ours, from `web/`: served name first.
const OWN: [(&str, &str); 2] = [("index.html", "graphiql.html"), ("start.js", "graphiql.js")];
/// What the embedded files are licensed under, in `node_modules/`.
const LICENCES: [&str; 3] = ["graphiql/LICENSE", "react/LICENSE", "react-dom/LICENSE"];

fn main() -> Result<(), Box<dyn Error>> {
    let web = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("web");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for file in INPUTS.into_iter().chain(OWN.map(|(_, file)| file)) {
        println!("cargo::rerun-if-changed=web/{file}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let folder = out.join("graphiql");
    fs::create_dir_all(&folder)?;
    let complete = match fetch(&web, &out, &folder) {
        Ok(()) => true,
        Err(Failure::Fetch(why)) => {
            println!("cargo::warning=GraphiQL is left out of this build: {why}");
            false
        }
        Err(Failure::Checksum(file)) => {
            return Err(
                format!("{file} is not what web/checksums.txt says: refusing to embed it").into(),
            );
        }
        Err(Failure::Other(error)) => return Err(error),
    };
    for (name, file) in OWN {
        compress(&folder, name, &fs::read(web.join(file))?)?;
    }
    fs::write(out.join("graphiql_assets.rs"), table(&folder, complete)?)?;
    Ok(())
}

enum Failure {
    /// npm is not there, or cannot reach its registry.
    Fetch(String),
    /// A file is not the one that was pinned.
    Checksum(String),
    Other(Box<dyn Error>),
}

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Brings the pinned files into `folder`, unless they are there from an earlier build with the same inputs.
fn fetch(web: &Path, out: &Path, folder: &Path) -> Result<(), Failure> {
    let mut inputs = Sha256::new();
    for file in INPUTS {
        inputs.update(fs::read(web.join(file))?);
    }
    let (stamp, wanted) = (folder.join("stamp"), hex(&inputs.finalize()));
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let npm = out.join("npm");
    // Left over by a build that was interrupted.
    let _ = fs::remove_dir_all(&npm);
    fs::create_dir_all(&npm)?;
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(web.join(file), npm.join(file))?;
    }
    install(&npm)?;
    let modules = npm.join("node_modules");
    for line in fs::read_to_string(web.join("checksums.txt"))?.lines() {
        let Some((checksum, path)) = line.split_once("  ") else {
            continue;
        };
        let content = fs::read(modules.join(path))?;
        if hex(&Sha256::digest(&content)) != checksum {
            return Err(Failure::Checksum(path.to_owned()));
        }
        let name = Path::new(path)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        compress(folder, &name, &content)?;
    }
    let mut licences = String::new();
    for path in LICENCES {
        let _ = writeln!(
            licences,
            "{path}\n\n{}\n",
            fs::read_to_string(modules.join(path)).unwrap_or_default()
        );
    }
    compress(folder, "LICENSES.txt", licences.as_bytes())?;
    fs::remove_dir_all(&npm)?;
    fs::write(stamp, wanted)?;
    Ok(())
}

fn install(npm: &Path) -> Result<(), Failure> {
    let options = [
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retry-maxtimeout=10000",
        "--fetch-timeout=60000",
    ];
    let output = Command::new("npm")
        .arg("ci")
        .args(options)
        .current_dir(npm)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::Fetch(format!(
                "npm ci failed: {}",
                said.lines()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or("it does not say why")
            )))
        }
        Err(e) => Err(Failure::Fetch(format!(
            "npm cannot be run ({e}); install it and touch web/package-lock.json"
        ))),
    }
}

/// Leaves `name.gz`, and `name.sha256` of what is inside.
fn compress(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let file = fs::File::create(folder.join(format!("{name}.gz")))?;
    let mut out = GzBuilder::new().write(file, Compression::best());
    out.write_all(content)?;
    out.finish()?;
    fs::write(
        folder.join(format!("{name}.sha256")),
        hex(&Sha256::digest(content)),
    )
}

/// The Rust table of what is embedded.
fn table(folder: &Path, complete: bool) -> Result<String, Box<dyn Error>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| {
            Some(
                entry
                    .ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".gz")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort();
    let mut text = format!("const COMPLETE: bool = {complete};\nconst ASSETS: &[Asset] = &[\n");
    for name in names {
        let version = fs::read_to_string(folder.join(format!("{name}.sha256")))?;
        writeln!(
            text,
            "    Asset {{ name: {name:?}, content_type: {:?}, body: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/graphiql/{name}.gz\")), version: {:?} }},",
            content_type(&name),
            &version[..16],
        )?;
    }
    text.push_str("];\n");
    Ok(text)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("html") => "text/html; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
