"""What people read instead of the names in files."""

SCORES = {
    "mae_fold_mean": "MAE, mean of the folds",
    "mae_fold_sd": "its sd over folds",
    "mae_pooled": "MAE, pooled",
    "rmse_pooled": "RMSE, pooled",
    "r2_pooled": "R², pooled",
    "pearson": "Pearson r",
    "spearman": "Spearman ρ",
    "accuracy": "accuracy",
    "accuracy_fold_mean": "accuracy, mean of the folds",
    "accuracy_fold_sd": "its sd over folds",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "mcc": "MCC",
    "roc_auc": "ROC AUC",
}

BASELINES = {
    "median": "training median",
    "majority": "commonest class",
    "random_forest": "random forest",
    "knn_unifrac": "kNN on UniFrac",
}


def row_label(name: str, role: str) -> str:
    """Return the label of a model (its name) or of a baseline."""
    return BASELINES.get(name, name) if role == "baseline" else name


def plain(name: str) -> str:
    """Return a name from a file as words: `weighted_normalized` as `weighted normalized`."""
    return name.replace("_", " ")


def short(name: str, limit: int = 20) -> str:
    """Cut a long name in its middle, where names of a kind differ least."""
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def score(value: float | None) -> str:
    """Return a score with two decimals, below one with three digits, or a dash for none."""
    if value is None or value != value:
        return "–"
    size = abs(value)
    if size >= 100:
        return f"{value:.1f}" if size < 1000 else f"{value:,.0f}"
    if size >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.1 or size == 0 else f"{value:.3g}"


def quantity(value: float | None) -> str:
    """Return a measured quantity with three significant digits, or a dash for none."""
    if value is None or value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
