"""What becomes of jobs: started, followed, ended, restored after a restart; and their folders."""
