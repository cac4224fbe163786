use std::fs::{self, File};

use device::Options;

use super::*;

fn env() -> Arc<RealEnv> {
    RealEnv::new(Options::default())
}

#[test]
fn files_of_a_directory_are_gone_in_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = Place::Directory(dir.path().to_owned());
    let plan = Plan { place, files: 7, size: 8 << 10, threads: 2 };
    let report = run(&env(), &plan).expect("nothing fails here");
    assert!(report.steps.iter().all(|step| step.p50_us > 0.0), "{report:?}");
    assert_eq!(report.text().lines().count(), 1 + STEPS.len());
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
    fs::create_dir(dir.path().join("files")).expect("a directory");
    let refused = run(&env(), &plan).expect_err("it is in the way");
    assert!(
        matches!(refused, FilesError::Directory { ref path, .. } if path.ends_with("files")),
        "{refused}"
    );
}

/// Counts what it is asked for, and has the contents.
#[derive(Default)]
struct Noted(std::sync::Mutex<Vec<(usize, Vec<u8>, usize)>>);

impl Server for Noted {
    type Directory = usize;
    type File = usize;

    fn directory(&self, number: usize) -> Result<usize, FilesError> {
        Ok(number)
    }

    fn create(&self, directory: &usize, _: &str) -> Result<usize, FilesError> {
        let mut files = self.0.lock().expect("no thread panics");
        files.push((*directory, Vec::new(), 0));
        Ok(files.len() - 1)
    }

    fn write(&self, file: &usize, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        let contents = &mut self.0.lock().expect("no thread panics")[*file].1;
        contents.resize(contents.len().max(offset as usize + data.len()), 0);
        contents[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn fsync(&self, file: &usize) -> Result<(), FilesError> {
        self.0.lock().expect("no thread panics")[*file].2 += 1;
        Ok(())
    }

    fn close(&self, _: usize) -> Result<(), FilesError> {
        Ok(())
    }

    fn fsync_directory(&self, _: &usize) -> Result<(), FilesError> {
        Ok(())
    }
}

#[test]
fn threads_share_the_files_and_each_is_synced_twice() {
    let noted = Noted::default();
    let place = Place::Directory(PathBuf::new());
    measure(&noted, &Plan { place, files: 7, size: 1000, threads: 3 }).expect("nothing fails here");
    let mut files = noted.0.into_inner().expect("no thread panics");
    files.sort_by_key(|file| file.0);
    let shares: Vec<usize> = files.iter().map(|file| file.0).collect();
    assert_eq!(shares, [0, 0, 0, 1, 1, 2, 2]);
    assert!(files.iter().all(|(_, contents, syncs)| contents.len() == 1000 && *syncs == 2), "{shares:?}");
}

#[test]
fn in_a_pool_it_is_the_sync_that_waits_for_a_device() {
    let dir = tempfile::tempdir().expect("a directory");
    let [main, log] = ["main", "log"].map(|name| dir.path().join(name));
    for path in [&main, &log] {
        File::create(path).and_then(|file| file.set_len(128 << 20)).expect("room");
    }
    let place = Place::Pool { main: vec![main], log: vec![log], cache: 16 << 20 };
    let report = run(&env(), &Plan { place, files: 5, size: 8 << 10, threads: 1 }).expect("a pool works");
    assert!(report.cpu_us_per_file.is_some_and(|cpu| cpu > 0.0), "{report:?}");
    let step = |name| report.steps.iter().find(|step| step.name == name).expect("such a step");
    // What is synced goes to a device, what is written does not.
    assert!(step("fsync").p50_us > step("close").p50_us, "{report:?}");
}
