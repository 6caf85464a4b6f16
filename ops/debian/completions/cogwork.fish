# The program completes itself, with the ids of the project.
cogwork completions fish | source
