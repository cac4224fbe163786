//! Pictures of the page over pools that are made up, taken by a real browser: `cargo xtask screens [DIRECTORY]`.
//!
//! Each scene is served on a port of its own, with a quarter of an hour behind it, and shown to Chromium in a large and a
//! small window, light and dark. With `--serve SCENE` it is only served, for somebody who changes the page.
#![forbid(unsafe_code)]

mod scene;

use control::RunPaths;
use scene::Scene;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use web::{Page, Token, Watched, loopback};

/// Names of windows, their sizes, and whether they are dark.
const WINDOWS: [(&str, &str, bool); 4] = [
    ("desktop-light", "1440,1500", false),
    ("desktop-dark", "1440,1500", true),
    ("phone-light", "390,3600", false),
    ("phone-dark", "390,3600", true),
];
/// The page has asked and drawn by then.
const DRAWN_MILLIS: u32 = 4_000;
const CHROMIUM: &str = "chromium";

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--serve", name] => serve(name),
        [directory] => Scene::all().iter().try_for_each(|scene| pictures(scene, Path::new(directory))),
        _ => Err("usage: screens DIRECTORY | --serve SCENE".into()),
    }
}

fn serve(name: &str) -> Done {
    let all = Scene::all();
    let scene = all.iter().find(|scene| scene.name == name).ok_or("there is no such scene")?;
    let shown = Shown::start(scene)?;
    println!("{}", shown.url);
    std::thread::sleep(Duration::MAX);
    Ok(())
}

/// A scene on a port.
struct Shown {
    url: String,
    directory: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Shown {
    fn start(scene: &Scene) -> Done<Self> {
        let directory = tempfile::tempdir()?;
        let paths = RunPaths::under(directory.path());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let page = runtime.block_on(Page::bind(loopback("0")?, &paths))?;
        let token = Token::read(&paths.web_token())?.ok_or("no token")?;
        let url = format!("http://{}/?span=900&token={}", page.address(), token.secret());
        let mut watched = Watched::default();
        scene.looks().for_each(|(looked, at_millis)| watched.look(looked, at_millis));
        let last = Arc::new(scene.last());
        runtime.spawn(page.serve_watched(last, Arc::new(Mutex::new(watched))));
        Ok(Self { url, directory, _runtime: runtime })
    }
}

fn pictures(scene: &Scene, directory: &Path) -> Done {
    std::fs::create_dir_all(directory)?;
    let shown = Shown::start(scene)?;
    for (window, size, is_dark) in WINDOWS {
        let path = directory.join(format!("{}-{window}.png", scene.name));
        picture(&shown, size, is_dark, &path)?;
        println!("{}", path.display());
    }
    Ok(())
}

fn picture(shown: &Shown, size: &str, is_dark: bool, path: &Path) -> Done {
    _ = std::fs::remove_file(path);
    let mut chromium = Command::new(CHROMIUM);
    chromium.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    chromium.arg(format!("--user-data-dir={}", shown.directory.path().join("profile").display()));
    chromium.arg(format!("--window-size={size}")).arg(format!("--virtual-time-budget={DRAWN_MILLIS}"));
    chromium.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
    chromium.arg(format!("--screenshot={}", path.display())).arg(&shown.url);
    let status = chromium.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.map_err(|error| format!("{CHROMIUM}: {error}; Debian's package chromium has it"))?;
    match status.success() && path.exists() {
        true => Ok(()),
        false => Err(format!("{CHROMIUM} took no picture: {status}").into()),
    }
}
