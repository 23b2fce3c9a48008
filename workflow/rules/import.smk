"""Bring the user's files, or a simulated study, into the form that every other stage reads.

Inputs: the files of `datasets`, or none.
Outputs: `simulated/`, `inputs/table.biom`, `sequences.fasta`, `dropped.tsv`, `tree.nwk`, `metadata.parquet`, `taxonomy.tsv` where one is given or a reference has names, `genes/`: the genes of a reference near the sequences; `notes/`: what was decided for the user.
"""


rule simulate:
    output:
        table=result("simulated/table.biom"),
        tree=result("simulated/tree.nwk"),
        metadata=result("simulated/metadata.tsv"),
        new_table=result("simulated/new_table.biom"),
        new_metadata=result("simulated/new_metadata.tsv"),
    log:
        result("logs/simulate.log"),
    benchmark:
        result("benchmarks/simulate.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.simulate(CONFIG, wildcards.dataset).plain(),
        code=script_digest("simulate"),
    message:
        "Simulating the data set {wildcards.dataset}"
    script:
        "../scripts/simulate.py"


rule import_table:
    input:
        unpack(files_of_counts),
    output:
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
        dropped=result("inputs/dropped.tsv"),
        notes=result("inputs/notes/table.tsv"),
    log:
        result("logs/import_table.log"),
    benchmark:
        result("benchmarks/import_table.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.import_table(
            CONFIG, wildcards.dataset
        ).plain(),
        code=script_digest("import_table"),
        content=content_of(files_of_counts),
    message:
        "Reading the table of {wildcards.dataset}"
    script:
        "../scripts/import_table.py"


rule find_genes:
    input:
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
    output:
        genes=result("inputs/genes/{reference}.tsv"),
    log:
        result("logs/find_genes/{reference}.log"),
    benchmark:
        result("benchmarks/find_genes/{reference}.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        settings=lambda wildcards: slices.find_genes(
            CONFIG, wildcards.dataset, wildcards.reference
        ).plain(),
        code=script_digest("find_genes"),
    message:
        "Looking for the sequences of {wildcards.dataset} in {wildcards.reference}"
    script:
        "../scripts/find_genes.py"


rule import_tree:
    input:
        unpack(source_files("tree")),
        unpack(lineage_files),
        unpack(genes_file(slices.tree_genes)),
        table=result("inputs/table.biom"),
        sequences=result("inputs/sequences.fasta"),
        dropped=result("inputs/dropped.tsv"),
    output:
        tree=result("inputs/tree.nwk"),
        notes=result("inputs/notes/tree.tsv"),
    log:
        result("logs/import_tree.log"),
    benchmark:
        result("benchmarks/import_tree.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: CONFIG.runtime.threads
    resources:
        mem_mb=16000,
        runtime=720,
    params:
        settings=lambda wildcards: slices.import_tree(CONFIG, wildcards.dataset).plain(),
        code=script_digest("import_tree"),
        content=content_of(source_files("tree")),
        work=result("inputs/work"),
    message:
        "Reading or making the tree of {wildcards.dataset}"
    script:
        "../scripts/import_tree.py"


rule import_metadata:
    input:
        unpack(source_files("metadata")),
        table=result("inputs/table.biom"),
    output:
        metadata=result("inputs/metadata.parquet"),
        notes=result("inputs/notes/metadata.tsv"),
    log:
        result("logs/import_metadata.log"),
    benchmark:
        result("benchmarks/import_metadata.tsv")
    priority: FIRST_ANSWER_PRIORITY
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings={},
        code=script_digest("import_metadata"),
        content=content_of(source_files("metadata")),
    message:
        "Reading the metadata of {wildcards.dataset}"
    script:
        "../scripts/import_metadata.py"


rule import_taxonomy:
    input:
        unpack(source_files("taxonomy")),
        unpack(genes_file(slices.naming_genes)),
        table=result("inputs/table.biom"),
        dropped=result("inputs/dropped.tsv"),
    output:
        taxonomy=result("inputs/taxonomy.tsv"),
        notes=result("inputs/notes/taxonomy.tsv"),
    log:
        result("logs/import_taxonomy.log"),
    benchmark:
        result("benchmarks/import_taxonomy.tsv")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=lambda wildcards: slices.import_taxonomy(
            CONFIG, wildcards.dataset
        ).plain(),
        code=script_digest("import_taxonomy"),
        content=content_of(source_files("taxonomy")),
    message:
        "Reading the taxonomy of {wildcards.dataset}"
    script:
        "../scripts/import_taxonomy.py"
