"""Files and folders that outlive a process: written so that a kill loses nothing, read as if strangers wrote them."""
