package container

func readOgg([]byte) (Info, error) { return Info{}, &Error{Unknown, "Ogg is not read yet"} }

func readMatroska([]byte) (Info, error) { return Info{}, &Error{Unknown, "WebM is not read yet"} }
