# The program completes itself, with the ids of the project.
source <(cogwork completions bash)
